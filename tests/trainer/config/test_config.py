"""Options from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.base.errors import OptionError
from trainer.config.command_line import parse
from trainer.config.config import to_toml
from trainer.config.options import Options


def written(folder: Path, text: str) -> str:
    path = folder / "run.toml"
    path.write_text(text)
    return str(path)


def test_the_file_gives_and_the_command_line_wins(tmp_path: Path) -> None:
    """A file that wins, or whose switches cannot be turned off, makes a command line that lies."""
    file = written(
        tmp_path,
        'cache = "c"\nhidden = 7\neval-every = 3\nlr = 1\nverify = true\nerror_feedback = true\n'
        'staleness = "fixed:3"\n',
    )
    assert parse(["--config", file]) == Options(
        cache="c", config=file, hidden=7, eval_every=3, lr=1.0, verify=True, error_feedback=True, staleness="fixed:3"
    )
    options = parse(["d", "--config", file, "--hidden", "9", "--no-verify"])
    assert (options.cache, options.hidden, options.verify, options.eval_every) == ("d", 9, False, 3)
    assert isinstance(parse(["--config", file]).lr, float)


def test_a_run_writes_what_it_can_read(tmp_path: Path) -> None:
    """A resolved configuration that does not start the same run is only decoration."""
    line = "c --model sage --dropout 0.25 --input-dropout 0 --json --class-weights 1,2,3 --seed 5 --lr 1e-05"
    options = parse([*line.split(), "--trace", 'a "quoted\\ path\x7f ü'])
    file = written(tmp_path, to_toml(options))
    again = parse(["--config", file])
    assert again == Options(**{name: getattr(options, name) for name in Options.__slots__} | {"config": file})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hidden = 3\n\nhiden = 7\n", ":3: there is no option 'hiden'"),
        ('# words\nhidden = "7"\n', ':2: hidden is a whole number, not "7"'),
        ("hidden = 7.0\n", ":1: hidden is a whole number, not 7.0"),
        ("hidden = true\n", ":1: hidden is a whole number, not true"),
        ("verify = 1\n", ":1: verify is true or false, not 1"),
        ("lr = [1]\n", ":1: lr is a number, not a list"),
        ("seed = 1\nhidden = 0\n", ":2: argument --hidden: expected a whole number from 1, not '0'"),
        ('\n\nmodel = "gnat"\n', ":3: argument --model: expected gcn, sage"),
        ("[model]\nhidden = 3\n", ":1: [model] is a table"),
        ("lr = 1\neval-every = 1\neval_every = 2\n", ":3: eval_every is the option of line 2 again"),
        ("lr = 1\nhidden = = 3\n", ":2: "),
        ('hidden = 3\nmodel = "gcn', ":2: "),
        ('config = "more.toml"\n', ":1: there is no option 'config'"),
    ],
)
def test_wrong_files_are_refused_with_the_line(tmp_path: Path, text: str, said: str) -> None:
    """A misspelt option that is ignored is a run with other options than those that were asked for."""
    file = written(tmp_path, text)
    with pytest.raises(OptionError) as caught:
        parse(["c", "--config", file])
    assert f"{file}{said}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A traceback of open() tells nobody which option was wrong."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for file in ("absent", "binary", "."):
        with pytest.raises(OptionError, match="--config"):
            parse(["c", "--config", str(tmp_path / file)])


def test_the_cache_has_to_come_from_somewhere(tmp_path: Path) -> None:
    """Without a cache there is nothing to train; the sentence says what is missing."""
    with pytest.raises(OptionError, match="give CACHE"):
        parse(["--config", written(tmp_path, "hidden = 3\n")])
