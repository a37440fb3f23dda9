"""Whatever happens to a store's files, `verify` finds it, in one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE
from graphprep.errors import DatasetError
from graphprep.store.metadata import CHECKSUMS, ROOT_CHECKSUM
from graphprep.store.store import GraphStore
from graphprep.topology import Topology
from pipelines.look import verify
from tests.graphs import labelled_graph, typed_graph, with_edge_arrays
from tests.soak import soak_count
from tests.stores import make_cache, make_store

KINDS = ("flip", "truncate", "extend", "remove", "swap", "add", "edit an attribute", "remove an attribute")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    rng = np.random.default_rng(1)
    make_store(with_edge_arrays(rng, typed_graph(rng)), target=folder / "g.zarr")
    return folder / "g.zarr"


@pytest.fixture
def place(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "g.zarr"))


def as_before_checksums(place: Path) -> None:
    """Leave what a release wrote that knew no checksums of metadata."""
    document = json.loads((place / "zarr.json").read_bytes())
    for name in (CHECKSUMS, ROOT_CHECKSUM):
        del document["attributes"][name]
    (place / "zarr.json").write_text(json.dumps(document))


def changed(value: Any, rng: np.random.Generator) -> Any:
    """Another value in the place of one of an attribute."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, dict) and value:
        name = list(value)[rng.integers(len(value))]
        return {**value, name: changed(value[name], rng)}
    if isinstance(value, list) and value:
        return value[::-1] if value != value[::-1] else value[1:]
    return value + 1 if isinstance(value, int | float) else f"{value}x"


def damage(files: list[Path], rng: np.random.Generator) -> str:
    """Change one file or two, or add one; says how."""
    kind = KINDS[rng.integers(len(KINDS))]
    victim = files[rng.integers(len(files))]
    if kind.endswith("attribute"):
        victims = [path for path in files if path.name == "zarr.json" and b'"attributes": {}' not in path.read_bytes()]
        victim = victims[rng.integers(len(victims))]
        document = json.loads(victim.read_bytes())
        names = list(document["attributes"])
        name = names[rng.integers(len(names))]
        if kind.startswith("edit"):
            document["attributes"][name] = changed(document["attributes"][name], rng)
        else:
            del document["attributes"][name]
        victim.write_text(json.dumps(document, indent=2))
        return f"{kind} {name} of {victim}"
    content = victim.read_bytes()
    if kind == "flip":
        flipped = bytearray(content)
        flipped[rng.integers(len(content))] ^= 1 << rng.integers(8)
        victim.write_bytes(flipped)
    elif kind == "truncate":
        victim.write_bytes(content[: rng.integers(len(content))])
    elif kind == "extend":
        victim.write_bytes(content + b" ")
    elif kind == "remove":
        victim.unlink()
    elif kind == "add":
        victim.with_name("stray").write_bytes(b"")
    else:
        others = [path for path in files if path.read_bytes() != content]
        other = others[rng.integers(len(others))]
        victim.write_bytes(other.read_bytes())
        other.write_bytes(content)
        return f"swap {victim} and {other}"
    return f"{kind} {victim}"


def problem_of(place: Path) -> str | None:
    """What is said of a store; None if it is whole."""
    try:
        GraphStore(place).check()
    except DatasetError as error:
        return str(error)
    return None


@pytest.mark.soak
def test_any_single_change_is_found(whole: Path, tmp_path: Path) -> None:
    """Guards against the 93 of 308 damages that passed: changed attributes, groups' zarr.json removed or swapped, files
    that do not belong to the store."""
    rng = np.random.default_rng(10)
    for number in range(soak_count(600)):
        place = Path(shutil.copytree(whole, tmp_path / f"{number}"))
        how = damage(sorted(path for path in place.rglob("*") if path.is_file()), rng)
        said = problem_of(place)
        assert said is not None, f"{how} was not found"
        assert "\n" not in said, how
        shutil.rmtree(place)


def test_a_whole_store_passes(place: Path) -> None:
    """Guards against checks that find fault with everything."""
    assert GraphStore(place).check() == ()


def test_an_older_store_is_read_and_what_cannot_be_checked_is_said(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against stores of earlier releases that are refused, or called whole without a word on metadata."""
    as_before_checksums(place)
    assert "without checksums" in verify(str(place))["unchecked"][0]
    assert "not checked: zarr.json" in capsys.readouterr().err
    zarr.open_group(str(place / "edges/paper__cites__paper"), mode="r+").attrs["encoding-type"] = "csc_matrix"
    with pytest.raises(DatasetError, match="the attributes of edges/paper__cites__paper are not"):
        verify(str(place))


def test_an_older_store_lacks_no_group_and_has_no_stray_file(place: Path) -> None:
    """Guards against checks of the listing that only new stores get."""
    as_before_checksums(place)
    (place / "stray").write_bytes(b"")
    with pytest.raises(DatasetError, match="stray does not belong"):
        verify(str(place))
    (place / "stray").unlink()
    (place / "nodes/zarr.json").unlink()
    with pytest.raises(DatasetError, match=r"nodes/zarr.json is missing"):
        verify(str(place))


def test_a_store_at_a_url_is_checked_likewise() -> None:
    """Guards against checksums of metadata that only a local disk gets."""
    store = make_store(labelled_graph(np.random.default_rng(0), 30, 90), target="memory://damage/g.zarr")
    assert store.check() == ()
    zarr.open_group(store.location, mode="r+").create_group("nodes/other")
    with pytest.raises(DatasetError, match="does not belong"):
        GraphStore(store.location).check()
    zarr.open_group(store.location, mode="r+").attrs["dataset"] = "other"
    with pytest.raises(DatasetError, match=r"zarr.json has changed"):
        GraphStore(store.location)


@pytest.mark.parametrize("by", ["edges/node__to__node/indices", "nodes/node/x", "nodes/node/train_mask"])
def test_a_chunk_with_other_content_is_not_partitioned(by: str, tmp_path: Path) -> None:
    """Guards against a whole cache, by its sums, of chunks that are well formed and not the store's own."""
    store = make_store(labelled_graph(np.random.default_rng(2), 60, 400), target=tmp_path / "g.zarr")
    array = zarr.open_array(store.location, path=by, mode="r+")
    array[:] = array[:][::-1]
    with pytest.raises(DatasetError, match=f"{by} has changed|do not ascend"):
        make_cache(GraphStore(store.location), Topology.flat(2), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("change", ["columns", "row offsets"])
def test_numbers_out_of_range_are_one_sentence(change: str, tmp_path: Path) -> None:
    """Guards against kernels that follow a column or row offset out of bounds."""
    store = make_store(labelled_graph(np.random.default_rng(2), 60, 400), target=tmp_path / "g.zarr")
    name = "indices" if change == "columns" else "indptr"
    array = zarr.open_array(store.location, path=f"edges/node__to__node/{name}", mode="r+")
    values = array[:]
    values[7] = 10**9
    array[:] = values
    opened = GraphStore(store.location)
    with pytest.raises(DatasetError, match=r"out of range|row offsets"):
        opened.csr_rows(HOMOGENEOUS_EDGE, 0, 60)
    with pytest.raises(DatasetError, match=r"has changed|out of range|row offsets"):
        opened.loaded()


def test_rows_say_at_the_end_that_they_are_others(tmp_path: Path) -> None:
    """Guards against features that are streamed into a cache uncompared."""
    store = make_store(labelled_graph(np.random.default_rng(2), 60, 400), target=tmp_path / "g.zarr")
    zarr.open_array(store.location, path="nodes/node/x", mode="r+")[3] = 0.5
    with pytest.raises(DatasetError, match="x has changed since it was written"):
        list(GraphStore(store.location).rows(HOMOGENEOUS_NODE, "x", 7))
