"""YAML with line numbers: every value on its line, every mistake in one sentence."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, model_validator

from graphprep.errors import DatasetError, GraphprepError, TopologyError
from graphprep.system import yaml_config
from graphprep.system.yaml_config import FaultAt, Where, YamlError, parse, validated

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
documents = st.recursive(scalars, lambda below: st.lists(below) | st.dictionaries(st.text(), below), max_leaves=20)


def every_path(value: object, where: Where = ()) -> set[Where]:
    """The way to each value below `value`, itself included."""
    if isinstance(value, dict):
        items: list[tuple[Any, object]] = list(value.items())
    else:
        items = list(enumerate(value)) if isinstance(value, list) else []
    return {where}.union(*(every_path(below, (*where, key)) for key, below in items))


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(documents, st.booleans())
def test_values_are_those_of_the_safe_loader_and_every_path_has_a_line(value: object, flow: bool) -> None:
    """Guards against a second reading of YAML that differs from PyYAML's, and against paths without a line."""
    text = yaml.safe_dump(value, default_flow_style=flow, allow_unicode=True)
    document = parse(text)
    assert document.value == yaml.safe_load(text)
    assert set(document.lines) == every_path(document.value)
    breaks = len(re.findall("\r\n|[\r\n\x85\u2028\u2029]", text))  # what YAML 1.1 takes for the end of a line
    assert all(1 <= line <= breaks + 1 for line in document.lines.values())


def test_lines_are_those_of_the_keys() -> None:
    """Guards against the line of the value, or one off, where the key stands on an earlier line."""
    document = parse("# comment\na:\n\n  b: 1\nc:\n  - x\n  -\n    d: 2\n  - {e: 3,\n     f: 4}\n")
    assert document.value == {"a": {"b": 1}, "c": ["x", {"d": 2}, {"e": 3, "f": 4}]}
    expected = {("a",): 2, ("a", "b"): 4, ("c",): 5, ("c", 0): 6, ("c", 1): 8, ("c", 2): 9, ("c", 2, "f"): 10}
    assert {where: document.lines[where] for where in expected} == expected


def test_merged_keys_keep_the_line_on_which_they_were_written() -> None:
    """Guards against merge keys that count as duplicates or that win over the mapping's own keys."""
    document = parse("base: &base\n  a: 1\n  b: 2\nmine:\n  <<: *base\n  b: 3\n")
    assert document.value == {"base": {"a": 1, "b": 2}, "mine": {"a": 1, "b": 3}}
    assert (document.lines["mine", "a"], document.lines["mine", "b"]) == (2, 6)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "'a' was already given on line 1"),
        ("x:\n  a: 1\n  'a': 3\n", 3, "'x.a' was already given on line 2"),
        ("a: [1\nb: }\n", 2, "while parsing a flow sequence"),
        ("a: b: c\n", 1, "not allowed here"),
        ("a: 1\n\tb: 2\n", 2, "tab|cannot start any token"),
        ("a: 1\n---\nb: 2\n", 2, "single document"),
        ("a: 1\nb: *nobody\n", 2, "nobody"),
        ("a: &a [*a]\n", 1, "contains itself"),
        ("a: &a\n  <<: *a\n", 1, "merges itself"),
        pytest.param("[" * 1200, 1, "nested too deeply", id="deep"),
        ("a:\n  !!python/object:os.system {}\n", 2, "not allowed"),
        ("a:\n  !!set {x, y}\n", 2, "not allowed"),
        ("a: 1\nb: !!python/name:os.system x\n", 2, "could not determine a constructor"),
        ("a: 1\nb: 2020-13-45\n", 2, "put it in quotes"),
        ("a: !!int twelve\n", 1, "put it in quotes"),
        ("? [a, b]\n: 1\n", 1, "single word"),
        ("a: 1\n<<: 3\n", 2, "merges mappings only"),
        ("a: 1\nb: \x07\n", 2, "#x0007"),
    ],
)
def test_what_is_not_plain_yaml_is_an_error_with_its_line(text: str, line: int, words: str) -> None:
    """Guards against silently lost keys, objects made by tags, endless recursion and tracebacks from the parser."""
    with pytest.raises(YamlError, match=words) as caught:
        parse(text)
    assert caught.value.line == line


def test_aliases_cannot_unfold_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a file of a few hundred bytes that fills the memory."""
    monkeypatch.setattr(yaml_config, "MAX_VALUES", 2000)
    text = "l0: &l0 [x]\n" + "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 10))
    with pytest.raises(YamlError, match="unfolds into more than"):
        parse(text)


class Link(BaseModel):
    model_config = ConfigDict(extra="forbid")
    ends: tuple[str, str]
    speed: float = Field(gt=0, allow_inf_nan=False)
    note: str | None = Field(default=None, alias="remark")

    @model_validator(mode="after")
    def _two_ends(self) -> Link:
        if self.ends[0] == self.ends[1]:
            raise FaultAt("both ends are the same", ("ends", 1))
        return self


class Net(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    links: list[Link] = Field(default_factory=list)
    by_name: dict[str, Link | None] = Field(default_factory=dict)
    count: int | list[int] = 1

    @model_validator(mode="after")
    def _not_forbidden(self) -> Net:
        if self.name == "forbidden":
            raise ValueError("this name\nis forbidden")
        return self


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected a mapping with the keys name, links, by_name, count, found nothing"),
        ("- a\n", "line 1: expected a mapping with the keys name, links, by_name, count, found a list of 1"),
        ("name: x\nlink: []\n", "line 2: unknown key 'link' (did you mean 'links'?)"),
        (
            "name: x\nlinks:\n  - ends: [a, b]\n    sped: 1\n",
            "line 4: unknown key 'sped' in links[0] (did you mean 'speed'?) (and 1 more)",
        ),
        (
            "name: x\nlinks:\n  - {ends: [a, b], speed: 1, remarks: y}\n",
            "line 3: unknown key 'remarks' in links[0] (did you mean 'remark'?)",
        ),
        (
            "name: x\nby_name:\n  y:\n    zzz: 1\n    ends: [a, b]\n    speed: 1\n",
            "line 4: unknown key 'zzz' in by_name.y; known keys are ends, speed, remark",
        ),
        ("links: []\n", "line 1: the file lacks the key 'name'"),
        ("name: x\nlinks:\n  - ends: [a, b]\n", "line 3: links[0] lacks the key 'speed'"),
        ("name: x\nlinks:\n  - {speed: 1, ends: [a]}\n", "line 3: links[0].ends lacks item 1"),
        ("name: 4\n", "line 1: name must be a valid string, found 4; put it in quotes"),
        ("name: yes\n", "line 1: name must be a valid string, found the truth value true; put it in quotes"),
        ("name:\n", "line 1: name must be a valid string, found nothing"),
        ("name: {}\n", "line 1: name must be a valid string, found a mapping"),
        ("name: x\nlinks:\n  - 3\n", "line 3: links[0] must be a mapping, found 3"),
        ("name: x\nyes: 3\n", "line 2: the key 'yes' is read as the truth value true; put it in quotes"),
        ("name: x\nby_name:\n  1: ~\n", "line 3: the key '1' is read as 1; put it in quotes"),
        (
            "name: x\nlinks:\n  - ends: [a, b]\n    speed: -1\n",
            "line 4: links[0].speed must be greater than 0, found -1",
        ),
        (
            "name: x\nlinks:\n  - ends: [a, b]\n    speed: .inf\n",
            "line 4: links[0].speed must be a finite number, found inf",
        ),
        (
            "name: x\nlinks:\n  - ends: [a,\n      a]\n    speed: 1\n",
            "line 4: links[0].ends[1]: both ends are the same",
        ),
        ("name: forbidden\n", "line 1: this name is forbidden"),
        ("name: x\nname: y\n", "line 2: the key 'name' was already given on line 1"),
    ],
)
def test_a_failing_model_names_line_key_and_remedy(text: str, message: str) -> None:
    """Guards against pydantic's pages of output, missing lines, and hints from another model's keys."""
    with pytest.raises(TopologyError) as caught:
        validated(Net, text, origin="net.yaml", error=TopologyError)
    assert str(caught.value) == f"net.yaml, {message}"


@pytest.mark.parametrize("error", [TopologyError, DatasetError])
def test_the_callers_error_class_is_raised(error: type[GraphprepError]) -> None:
    """Guards against a registry that fails with the exit status of a topology."""
    with pytest.raises(error):
        validated(Net, "name: [", origin="x", error=error)


def test_a_fault_in_one_member_of_a_union_keeps_its_line() -> None:
    """Guards against union members' names in pydantic's locations hiding the line."""
    with pytest.raises(TopologyError, match="x, line 2: count must be"):
        validated(Net, "name: x\ncount:\n  - 1\n  - a\n", origin="x", error=TopologyError)


def test_a_valid_file_becomes_the_model() -> None:
    """Guards against a reader that only ever finds faults."""
    net = validated(Net, "name: x\nlinks: [{ends: [a, b], speed: 2}]\n", origin="x", error=TopologyError)
    assert net == Net(name="x", links=[Link(ends=("a", "b"), speed=2.0)])


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.text() | documents.map(yaml.safe_dump))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    """Guards against exceptions that no person caused on purpose: the tool must not show a traceback."""
    with suppress(TopologyError):
        validated(Net, text, origin="x", error=TopologyError)
    with pytest.raises(TopologyError, match=r"^x, line \d+: [^\n]+$"):
        validated(Net, text + "\nname: x\nname: y\n", origin="x", error=TopologyError)
