"""YAML that remembers its lines: text -> plain values, and the line of every path in them.

A model that fails on a plain dictionary can only say "links.2.ends". A person who wrote a file wants the line. So the
text is composed into PyYAML's nodes, which carry their positions, and the nodes are turned into plain values here, by
the safe constructors only: a tag that would build an object is an error. What PyYAML lets pass and a person would not
is an error as well: a key given twice, a key such as `on` that is no text, a mapping that contains itself, text that
unfolds into millions of values (by aliases or by `<<`), a number of thousands of digits.

`validated` runs a pydantic model over the values and turns its first failure into one sentence: file, line, key, what
is wrong with it, and the known key that an unknown one resembles. A model's own validators raise `FaultAt` to point at
a place below the model, and so get the same lines.
"""

from __future__ import annotations

import re
import types
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from graphprep.errors import GraphprepError
from graphprep.system.nearest import nearest

Where = tuple[str | int, ...]
"""The way to a value: mapping keys and positions in sequences, from the root."""
M = TypeVar("M", bound=BaseModel)

MAX_VALUES = 1_000_000
MAX_NUMBER_LENGTH = 400
"""Characters; a longer number is a mistake, and PyYAML's base 60 takes quadratic time for it."""
_MAP_TAG, _SEQ_TAG, _MERGE_TAG = (f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "merge"))
_NUMBER_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("int", "float"))
_UNKNOWN_KEY, _MISSING_KEY = "extra_forbidden", "missing"


class StrictModel(BaseModel):
    """Base of all that is written in YAML: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class YamlError(ValueError):
    """Text that is not the YAML we read; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class FaultAt(ValueError):
    """Raised in a model's validator: what is wrong, and where below that model."""

    def __init__(self, message: str, where: Where = ()) -> None:
        super().__init__(message)
        self.where = where


@dataclass(frozen=True, slots=True, kw_only=True)
class LinedYaml:
    """One document: its plain value, and the line (from 1) of each path's key or item."""

    value: object
    lines: Mapping[Where, int]


def parse(text: str, *, by_libyaml: bool = False) -> LinedYaml:
    """Read one YAML document.

    Args:
        text: the document.
        by_libyaml: whether libyaml may read it, where PyYAML has it: ten times quicker, but it takes some texts that
            PyYAML does not, and its errors have other words. For this package's own files.

    Raises:
        YamlError: bad syntax, a duplicate key, an unknown tag, a key that is not text, a value that contains itself,
            or more than `MAX_VALUES` values.
    """
    try:
        loader = (getattr(yaml, "CSafeLoader", yaml.SafeLoader) if by_libyaml else yaml.SafeLoader)(text)
        node = loader.get_single_node()
        if node is None:
            return LinedYaml(value=None, lines={(): 1})
        reader = _Reader(loader)
        return LinedYaml(value=reader.value(node, ()), lines=reader.lines)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        words = ", ".join(part for part in (problem.context, problem.problem) if part)
        raise YamlError(_one_line(words), mark.line + 1 if mark else 1) from problem
    except yaml.reader.ReaderError as problem:
        line = text.count("\n", 0, problem.position) + 1
        raise YamlError(f"the character #x{problem.character:04x} is not allowed", line) from problem
    except RecursionError as problem:
        raise YamlError("values are nested too deeply", 1) from problem


def validated(model: type[M], text: str, *, origin: str, error: type[GraphprepError], by_libyaml: bool = False) -> M:
    """Read `text` as a `model`.

    Args:
        model: a pydantic model; unknown keys are reported where it forbids them.
        text: YAML.
        origin: what to call the text in messages: a file's name.
        error: the class of error to raise.
        by_libyaml: as in `parse`.

    Raises:
        error: one sentence with `origin`, the line, the key and what is wrong.
    """
    try:
        document = parse(text, by_libyaml=by_libyaml)
    except YamlError as problem:
        raise error(f"{origin}, line {problem.line}: {problem}") from problem
    if not isinstance(document.value, dict):
        keys = ", ".join(_known_keys([model]))
        kind = "nothing" if document.value is None else describe(document.value)
        raise error(f"{origin}, line {document.lines[()]}: expected a mapping with the keys {keys}, found {kind}")
    try:
        return model.model_validate(document.value)
    except ValidationError as problem:
        line, message = _first_fault(problem, model, document)
        raise error(f"{origin}, line {line}: {message}") from problem


def validated_values(model: type[M], values: Mapping[str, Any], *, origin: str, error: type[GraphprepError]) -> M:
    """As `validated`, of values that were never text.

    Raises:
        error: one sentence with `origin`, the key and what is wrong.
    """
    try:
        return model.model_validate(values)
    except ValidationError as problem:
        _, message = _first_fault(problem, model, LinedYaml(value=values, lines=dict.fromkeys(_places(values, ()), 0)))
        raise error(f"{origin}: {message}") from problem


def _places(value: object, where: Where) -> Iterator[Where]:
    """The way to each value below one."""
    yield where
    below = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, child in below:
        yield from _places(child, (*where, key))


def _first_fault(problem: ValidationError, model: type[BaseModel], document: LinedYaml) -> tuple[int, str]:
    """The line of the first failure, and what it is."""
    faults = sorted((_Fault.of(details, model, document) for details in problem.errors()), key=_Fault.weight)
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return faults[0].line, f"{faults[0].message}{more}"


def describe(value: object) -> str:
    """What a plain value is, in a person's words."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"the truth value {str(value).lower()}"
        case dict():
            return "a mapping"
        case list():
            return f"a list of {len(value)}"
        case str():
            return repr(value if len(value) <= 60 else value[:57] + "...")
        case float():
            return f"{value:.12g}"
        case int():
            return str(value) if abs(value) < 10**30 else "a number of more than 30 digits"
        case _:
            return f"the {type(value).__name__} {value}"


def dotted(where: Where) -> str:
    """A path as people write it: links[2].ends."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).removeprefix(".")


class _Reader:
    """Turns composed nodes into plain values and notes their lines."""

    def __init__(self, loader: yaml.SafeLoader) -> None:
        self.loader = loader
        self.lines: dict[Where, int] = {}
        self.open: set[int] = set()  # ids of the nodes that we are inside of
        self.merging: set[int] = set()  # and of those whose keys are being merged
        self.count = 0

    def value(self, node: yaml.Node, where: Where, line: int | None = None) -> object:
        here = node.start_mark.line + 1
        self.lines[where] = here if line is None else line
        self.add(1, here)
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        if node.tag not in (_MAP_TAG, _SEQ_TAG):
            raise YamlError(f"the tag {node.tag!r} is not allowed", here)
        if id(node) in self.open:
            raise YamlError("a value contains itself through an alias", here)
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item, (*where, position)) for position, item in enumerate(node.value)]
            return self.mapping(node, where)
        finally:
            self.open.discard(id(node))

    def add(self, values: int, line: int) -> None:
        """Count values, and keys that `<<` copies, against `MAX_VALUES`."""
        self.count += values
        if self.count > MAX_VALUES:
            raise YamlError(f"the text unfolds into more than {MAX_VALUES:,} values", line)

    def mapping(self, node: yaml.Node, where: Where) -> dict[str, object]:
        return {key: self.value(child, (*where, key), line) for key, (child, line) in self.pairs(node, where).items()}

    def pairs(self, node: yaml.Node, where: Where) -> dict[str, tuple[yaml.Node, int]]:
        """Each key with its value's node and its own line; then what `<<: *other` adds to the mapping's own keys."""
        own: dict[str, tuple[yaml.Node, int]] = {}
        merged: list[yaml.Node] = []
        for key_node, child in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise YamlError("a key must be a single word, not a list or a mapping", line)
            if key_node.tag == _MERGE_TAG:
                merged += child.value if isinstance(child, yaml.SequenceNode) else [child]
                continue
            key = self.scalar(key_node)
            if not isinstance(key, str):
                raise YamlError(f"the key {key_node.value!r} is read as {describe(key)}; put it in quotes", line)
            if key in own:
                raise YamlError(f"the key {dotted((*where, key))!r} was already given on line {own[key][1]}", line)
            own[key] = (child, line)
        others: dict[str, tuple[yaml.Node, int]] = {}
        for source in merged:
            if not isinstance(source, yaml.MappingNode):
                raise YamlError("'<<' merges mappings only", source.start_mark.line + 1)
            if id(source) in self.merging:
                raise YamlError("a mapping merges itself through an alias", source.start_mark.line + 1)
            self.merging.add(id(source))
            try:
                added = self.pairs(source, where)
            finally:
                self.merging.discard(id(source))
            self.add(1 + len(added), source.start_mark.line + 1)
            for key, value in added.items():
                others.setdefault(key, value)
        return others | own

    def scalar(self, node: yaml.ScalarNode) -> object:
        if node.tag in _NUMBER_TAGS and len(node.value) > MAX_NUMBER_LENGTH:
            length = len(node.value)
            message = f"the number {node.value[:20]}... has {length:,} characters; put it in quotes if it is text"
            raise YamlError(message, node.start_mark.line + 1)
        try:
            value: object = self.loader.construct_object(node)
        except (ValueError, LookupError, AttributeError) as problem:  # 2020-13-45 looks like a date and is none
            kind = node.tag.rpartition(":")[2]
            message = f"{node.value!r} looks like a value of type {kind} and is none; put it in quotes"
            raise YamlError(message, node.start_mark.line + 1) from problem
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """One failure of a model, in words."""

    kind: str
    line: int
    message: str

    def weight(self) -> tuple[int, int]:
        """Unknown keys first: the missing key beside one is mostly the same slip of the pen."""
        return (0 if self.kind == _UNKNOWN_KEY else 1 if self.kind == _MISSING_KEY else 2, self.line)

    @classmethod
    def of(cls, details: Mapping[str, Any], model: type[BaseModel], document: LinedYaml) -> _Fault:
        kind, cause = details["type"], details.get("ctx", {}).get("error")
        location = details["loc"] + (cause.where if isinstance(cause, FaultAt) else ())
        where = _existing(location, document)
        place = dotted(where) or "the file"
        if kind == _UNKNOWN_KEY:
            known = _known_keys(_types_at(model, where[:-1]))
            inside = f" in {dotted(where[:-1])}" if where[:-1] else ""
            hint = nearest(where[-1], known) or f"; known keys are {', '.join(known)}"
            message = f"unknown key {str(where[-1])!r}{inside}{hint}"
        elif kind == _MISSING_KEY:
            missing = f"the key {location[-1]!r}" if isinstance(location[-1], str) else f"item {location[-1]}"
            message = f"{place} lacks {missing}"
        elif cause is not None:
            message = f"{place}: {cause}" if where else str(cause)
        else:
            message = f"{place} {_plain(details)}"
        return cls(kind=kind, line=document.lines[where], message=_one_line(message))


def _existing(location: Where, document: LinedYaml) -> Where:
    """The part of pydantic's location that is in the file; it also names union members and what is missing."""
    where: Where = ()
    for part in location:
        if (*where, part) in document.lines:
            where = (*where, part)
    return where


def _plain(details: Mapping[str, Any]) -> str:
    """pydantic's words for a wrong value, as the end of a sentence that began with the key."""
    words = re.sub(r"^\w+ should ", "must ", details["msg"]).replace(" after validation", "")
    words = re.sub(r"a valid dictionary( or instance of \w+)?", "a mapping", words)
    words = words[:1].lower() + words[1:]
    value = details["input"]
    quotes = "; put it in quotes" if details["type"] == "string_type" and not isinstance(value, dict | list) else ""
    return f"{words}, found {describe(value)}{quotes if value is not None else ''}"


def _types_at(model: type[BaseModel], where: Where) -> list[object]:
    """The types that may stand at `where` below `model`."""
    here: list[object] = [model]
    for part in where:
        below: list[object] = []
        for kind in here:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                below += [f.annotation for name, f in kind.model_fields.items() if (f.alias or name) == part]
            else:
                below += get_args(kind)
        here = [member for kind in below for member in _members(kind)]
    return here


def _members(kind: object) -> Iterator[object]:
    """`kind` without Annotated and Optional; the members of a union."""
    if get_origin(kind) is Annotated:
        yield from _members(get_args(kind)[0])
    elif get_origin(kind) in (Union, types.UnionType):
        for member in get_args(kind):
            yield from _members(member)
    else:
        yield kind


def _known_keys(kinds: Collection[object]) -> list[str]:
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return list(dict.fromkeys(f.alias or name for kind in models for name, f in kind.model_fields.items()))


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
