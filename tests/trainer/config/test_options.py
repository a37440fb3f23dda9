"""Every option is said once, and everything that shows options shows it."""

from __future__ import annotations

import re
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import pytest

from trainer.base.errors import OptionError
from trainer.config.command_line import parse, word_of
from trainer.config.option import PROBABILITY, SHARE, Range, number, whole
from trainer.config.options import MODELS, OPTIONS, Options
from trainer.config.options_table import options_tables

NAMES = [name for name in OPTIONS if name not in ("cache", "config")]


@pytest.fixture
def help_text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "400")
    with pytest.raises(SystemExit):
        parse(["--help"])
    return capsys.readouterr().out


def test_every_field_is_an_option() -> None:
    """Guards against a field without help, type or group: get_type_hints and metadata of all are read at import."""
    assert list(OPTIONS) == list(Options.__slots__)
    for option in OPTIONS.values():
        assert option.help
        assert option.kind in (int, float, str, bool)
        assert not (option.choices and option.convert), option.name
        if option.choices:
            assert option.default in option.choices
        if isinstance(option.convert, Range):
            assert option.convert.kind is option.kind
    assert [name for name, option in OPTIONS.items() if option.default is MISSING] == ["cache"]


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_in_the_help(name: str, help_text: str) -> None:
    """Guards against an option that `--help` does not name, or names without its help and default."""
    option = OPTIONS[name]
    [line] = [line for line in help_text.splitlines() if re.match(rf" +(-\w, )?{option.flag}\b(?!-)", line)]
    lines = " ".join(help_text[help_text.index(line) :].split())
    default = f" (default: {option.default_text})" if option.default_text and option.kind is not bool else ""
    assert f"{option.full_help}{default} " in lines + " "
    assert help_text.index(f"\n{option.group.title}:") < help_text.index(line)


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_a_key_of_a_file(name: str, tmp_path: Path) -> None:
    """Guards against an option that a file cannot give, or whose limits a file passes by."""
    option, file = OPTIONS[name], tmp_path / "run.toml"
    text = "true" if option.kind is bool else repr(option.default) if option.kind in (int, float) else '"none"'
    wrong = "[]"
    if option.choices:
        text, wrong = f'"{option.choices[-1]}"', '"no-such-word"'
    elif isinstance(option.convert, Range):
        text, wrong = ("0.5" if option.default is None and option.kind is float else "3"), "-1"
        text = "0.5" if option.convert in (SHARE, PROBABILITY) else text
    elif option.convert:
        text, wrong = f'"{option.default or "10,5"}"', '"no:such:word"'
    elif option.kind is str:
        text = '"f.pt"'
    together = {"resume": 'checkpoint = "c"', "restarts": 'checkpoint = "c"', "validate_from": "dropout = 0.0"}
    together["task"] = 'edge-label = "f"'
    together |= dict.fromkeys(
        (
            *("fanouts", "sampler", "draw", "eval_fanouts", "sampler_processes", "sample_from", "control_variates"),
            "features_by",
        ),
        "batch-size = 2",
    )
    together |= {
        "remote_row_cache": "batch-size = 2",
        "cache_policy": 'batch-size = 2\nremote-row-cache = "0.1"',
    }
    model = f'model = "{option.models[0]}"' if option.models else ""
    task = f'task = "{option.tasks[0]}"' if option.tasks else ""
    file.write_text("\n".join([f"{name.replace('_', '-')} = {text}", together.get(name, ""), model, task]))
    value = getattr(parse(["c", "--config", str(file)]), name)
    assert type(value) is option.kind
    assert str(value).lower() == text.strip('"') or float(value) == float(text)
    file.write_text(f"{name} = {wrong}")
    with pytest.raises(OptionError, match=rf"run\.toml:1: .*{name.replace('_', '[_-]')}"):
        parse(["c", "--config", str(file)])


@pytest.mark.parametrize("name", [name for name in NAMES if OPTIONS[name].models])
def test_options_of_some_models_are_refused_for_others(name: str) -> None:
    """Guards against an option that does nothing for the model, without a word."""
    option = OPTIONS[name]
    value = option.choices[-1] if option.choices else "0.3" if option.kind is float else "8"
    value = "2,1,4" if name == "parallel" else "False" if option.kind is bool else value
    word = word_of(name, False if option.kind is bool else value)
    with pytest.raises(OptionError, match=f"{option.flag} does nothing for --model gcn; it is for"):
        parse(["c", "--model", "gcn", word])
    own = ["f.py:Mine"] if {*option.models} & {*MODELS} else []
    for model in (*option.models, *own):
        assert str(getattr(parse(["c", "--model", model, word]), name)) == value


@pytest.mark.parametrize("name", [name for name in NAMES if OPTIONS[name].tasks])
def test_options_of_some_tasks_are_refused_for_others(name: str) -> None:
    """Guards against an option that does nothing for the task, without a word."""
    option = OPTIONS[name]
    value = option.choices[-1] if option.choices else "0.8,0.1,0.1" if name == "edge_split" else "0.3"
    value = "7" if option.kind is int else "p.csv" if name == "save_pairs" else value
    with pytest.raises(OptionError, match=f"{option.flag} does nothing without --task {option.tasks[0]}"):
        parse(["c", f"{option.flag}={value}"])
    assert str(getattr(parse(["c", "--task", option.tasks[0], f"{option.flag}={value}"]), name)) == value


@pytest.mark.parametrize("shares", ["0.8,0.1", "0.8,0.1,0.2", "0,0.5,0.5", "a,b,c", "1.1,-0.05,-0.05"])
def test_shares_of_edges_that_are_no_split_are_refused(shares: str) -> None:
    """Guards against shares that leave nothing to learn, or of which some edges are in no part of the split."""
    with pytest.raises(OptionError, match="edge-split: expected"):
        parse(["c", "--task", "links", f"--edge-split={shares}"])


@pytest.mark.parametrize(
    "words",
    [
        ["--inductive"],
        ["--class-weights=balanced"],
        ["--split=1"],
        ["--target=paper"],
        ["--metric=mrr", "--eval-negatives=0"],
        ["--edge-split=role"],
    ],
)
def test_options_of_nodes_are_refused_for_links(words: list[str]) -> None:
    """Guards against an option that is about nodes' labels, and does nothing for pairs."""
    with pytest.raises(OptionError, match=f"--task links cannot be with {words[0].partition('=')[0]}"):
        parse(["c", "--task", "links", *words])


def test_labels_of_edges_need_a_name_that_is_no_feature() -> None:
    """Guards against a run without labels, and against one that reads the answer."""
    words = ["c", "--task", "edges"]
    with pytest.raises(OptionError, match="--task edges needs --edge-label"):
        parse(words)
    with pytest.raises(OptionError, match="the model would read the label"):
        parse([*words, "--edge-label", "kind", "--edge-features", "kind"])
    options = parse([*words, "--edge-label", "kind", "--edge-features", "price", "--edge-split", "role"])
    assert (options.edge_label, options.edge_features, options.edge_split) == ("kind", "price", "role")


@pytest.mark.parametrize(
    ("range_", "accepted", "refused"),
    [
        (whole(1, 3), ["1", "3"], ["0", "4", "1.5", "x", ""]),
        (number(0.1, 2, or_zero=True), ["0", "0.1", "2"], ["0.05", "2.1", "nan", "-1"]),
        (number(0.1, 2), ["0.1", "2"], ["0", "inf"]),
        (SHARE, ["0", "0.99"], ["1", "-0.1", "nan"]),
        (PROBABILITY, ["0", "1"], ["1.01", "nan"]),
    ],
)
def test_ranges(range_: Any, accepted: list[str], refused: list[str]) -> None:
    """Guards against a limit that is off by one, and against values whose type is another one."""
    for text in accepted:
        assert range_(text) == float(text)
        assert type(range_(text)) is range_.kind
    for text in refused:
        with pytest.raises(Exception, match=re.escape(f"expected {range_.words}, not {text!r}")):
            range_(text)


def test_every_option_says_whether_a_resumed_run_may_change_it() -> None:
    """Guards against a group that lets an option of the model change, as checkpoints of another model would load."""
    fixed = {name for name, option in OPTIONS.items() if option.group.decides_result and not option.may_change}
    model = {"model", "layers", "hidden", "aggregator", "heads", "output_heads", "bases", "residual", "jumping", "norm"}
    model |= {"neighbours", "node_vectors", "variant", "history"}
    drops = {"dropout", "input_dropout", "attention_dropout"}
    data = {"edge_features", "task", "metric", "class_weights", "inductive", "seed", "split", "optimiser"}
    pairs = {"edge_label", "edge_split", "disjoint_train", "embedding", "decoder", "negatives", "eval_negatives"}
    assert fixed == model | drops | data | pairs


def test_the_tables_of_the_docs_are_those_of_the_options() -> None:
    """Guards against a page that describes other options than there are: python -m trainer.config.options_table."""
    page = (Path(__file__).parents[3] / "docs/training-reference.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"<!-- options: trainer -->\n\n(.*?)\n\n<!-- end of options -->", page, re.DOTALL)
    assert shown == options_tables()
    for option in OPTIONS.values():
        assert shown.count(f"| `{'CACHE' if option.name == 'cache' else option.flag}") >= 1
