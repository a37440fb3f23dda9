"""Small files that claim or unfold into far more than they hold: one sentence each, before memory is taken."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch_geometric.data import Data

from cli import main
from graphprep.datasets.formats.torch_file import load
from graphprep.errors import DatasetError
from graphprep.system import progress
from graphprep.system.printable import printable
from graphprep.system.yaml_config import YamlError, parse
from tests.datasets.user_graphs import graph
from trainer.base.errors import OptionError
from trainer.config.config import read_config

pytestmark = pytest.mark.slow

HOSTILE = Path(os.environ.get("GRAPHPREP_TEST_DATA", "absent")).parent / "cases" / "hostile"
SHARED = (
    *("bigid.pt", "huge.mtx", "laughs.pt", "manynodes.pt"),
    *("sp_coo.npz", "sp_csc.npz", "stride0_edges.pt", "stride0_x.pt"),
)


def merge_bomb(levels: int) -> str:
    lines = [f"a{level}: &a{level} {{<<: [{','.join([f'*a{level - 1}'] * 9)}]}}" for level in range(1, levels)]
    return "\n".join(["a0: &a0 {k: 1}", *lines])


def test_merge_bomb_is_counted() -> None:
    """Guards against 600 bytes of YAML that keep a processor busy for ever: merged keys counted for nothing."""
    with pytest.raises(YamlError, match="unfolds into more than 1,000,000 values"):
        parse(merge_bomb(20))


def test_merge_keeps_its_meaning() -> None:
    """Guards against a count that changes what `<<` gives: own keys first, then those of the earlier mapping."""
    text = "a: &a {k: 1, l: 1}\nb: &b {k: 2, m: 2}\nc: {<<: [*a, *b], l: 3}"
    assert parse(text).value["c"] == {"k": 1, "l": 3, "m": 2}  # type: ignore[index]


def test_mapping_that_merges_itself() -> None:
    """Guards against a recursion whose error names no line."""
    with pytest.raises(YamlError, match="merges itself") as caught:
        parse("x: 1\na: &a\n  <<: *a")
    assert caught.value.line in (2, 3)


@pytest.mark.parametrize("number", ["1" + ":59" * 100_000, "9" * 5_000, "-" + "1" * 500 + ".5"])
def test_long_numbers(number: str) -> None:
    """Guards against base 60, which takes minutes for a number of 300 kB, and against a text of Python's."""
    with pytest.raises(YamlError, match="characters; put it in quotes"):
        parse(f"a: {number}")


@pytest.mark.parametrize(
    ("text", "expected"), [("a = " + "[" * 5_000, "nested too deeply"), ("a = " + "9" * 5_000, "shorter number")]
)
def test_config_of_the_trainer(text: str, expected: str, tmp_path: Path) -> None:
    """Guards against tracebacks of tomllib's: RecursionError and ValueError are none of its own errors."""
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(OptionError, match=expected):
        read_config(str(tmp_path / "c.toml"), lambda _, value: value)


@pytest.mark.parametrize("name", ["x", "edge_index", "y"])
def test_strides_of_zero(name: str, tmp_path: Path) -> None:
    """Guards against a file of 2 kB whose tensor takes gigabytes as soon as it is looked at."""
    fields: dict[str, Any] = {"edge_index": torch.tensor([[0, 1], [1, 0]]), name: torch.zeros(1, 1).long()}
    fields[name] = fields[name].expand(2, 1 << 36)
    torch.save(Data(**fields), tmp_path / "d.pt")
    with pytest.raises(DatasetError, match=rf"d\.pt.*{name}.*only 8 are stored"):
        graph(tmp_path / "d.pt")


def test_small_repeated_tensor_is_read(tmp_path: Path) -> None:
    """Guards against a refusal of what PyTorch Geometric saves: one label expanded to all nodes."""
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), x=torch.ones(1, 1).expand(3, 2))
    torch.save(data, tmp_path / "d.pt")
    assert graph(tmp_path / "d.pt").nodes["node"].x.tolist() == [[1, 1]] * 3  # type: ignore[union-attr]


def test_unfolding_name_of_a_storage(tmp_path: Path) -> None:
    """Guards against an error whose text has more characters than there is memory."""

    class Storage:
        pass

    value: Any = ("a",)
    for _ in range(30):
        value = (value,) * 9

    class Writer(pickle.Pickler):
        def persistent_id(self, item: object) -> Any:
            return value if isinstance(item, Storage) else None

    with zipfile.ZipFile(tmp_path / "d.pt", "w") as archive, archive.open("d/data.pkl", "w") as stream:
        Writer(stream).dump(Storage())
    with pytest.raises(DatasetError) as caught:
        load((tmp_path / "d.pt").read_bytes())
    assert len(str(caught.value)) < 1_000


def claims_matrix(path: Path) -> None:
    path.write_text(f"%%MatrixMarket matrix coordinate pattern general\n{10**12} {10**12} 1\n1 1\n")


def claims_columns(path: Path) -> None:
    one = np.zeros(1, np.int64)
    np.savez(path, format=np.array("csc"), shape=np.array([2**40] * 2), indptr=one, indices=one, data=one)


def claims_entries(path: Path) -> None:
    one = np.zeros(1, np.int64)
    np.savez(path, format=np.array("coo"), shape=np.array([2**50] * 2), row=one, col=one, data=one)


def claims_nodes(path: Path) -> None:
    torch.save(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=10**12), path)


def claims_id(path: Path) -> None:
    torch.save(Data(edge_index=torch.tensor([[0], [2**62]])), path)


@pytest.mark.parametrize(
    ("ending", "write"),
    [
        (".mtx", claims_matrix),
        (".npz", claims_columns),
        (".npz", claims_entries),
        (".pt", claims_nodes),
        (".pt", claims_id),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_absurd_number_of_nodes(ending: str, write: Any, tmp_path: Path) -> None:
    """Guards against "memory ran out" without a name: the file and what it claims are told before memory is taken."""
    write(path := tmp_path / f"d{ending}")
    with pytest.raises(DatasetError, match=rf"d\{ending}.*(nodes|rows)"):
        graph(path)


def test_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against names that move the cursor, rename the window or hide what was printed."""
    assert printable("a\x1b[2J\x9b\u202e\r\tb\n") == "a\\x1b[2J\\x9b\\u202e\\r\tb\n"
    progress.configure(quiet=False)
    progress.say("a\x1b]0;x\x07")
    progress.warn("b\x1b[2J")
    assert capsys.readouterr().err == "a\\x1b]0;x\\x07\nwarning: b\\x1b[2J\n"


def test_errors_escape_control_characters() -> None:
    """Guards against an error that prints a path's escape sequences."""
    result = CliRunner().invoke(main, ["inspect", "no\x1b[2Jsuch"])
    assert result.exit_code
    assert "\x1b" not in result.output
    assert "\\x1b[2J" in result.output


@pytest.mark.skipif(not HOSTILE.is_dir(), reason=f"{HOSTILE} is absent")
@pytest.mark.parametrize("name", SHARED)
def test_shared_files(name: str) -> None:
    """Guards against hangs and memory that files from reports took: each is refused by its name."""
    with pytest.raises(DatasetError, match=name.replace(".", r"\.")):
        graph(HOSTILE / name)


@pytest.mark.skipif(not HOSTILE.is_dir(), reason=f"{HOSTILE} is absent")
def test_shared_merge_bomb() -> None:
    """Guards against the merge bomb of a report."""
    with pytest.raises(YamlError, match="unfolds"):
        parse((HOSTILE / "merge.yaml").read_text())
