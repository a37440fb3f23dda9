"""What is said of a cache that is absent, unfinished, damaged, or not for this trainer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainer.handmade_cache import HandmadeGraph, edit_json, flat_topology, make_cache, random_graph, seal
from tests.trainer.rank_group import train_once
from trainer.__main__ import main
from trainer.base.traffic_log import Clock
from trainer.data.cache import open_cache
from trainer.data.part import load_part
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.sparse.feature_rows import SparseRows, count_entries

NODES = "parts/0/nodes/node"
LOCAL = "parts/0/edges/node__to__node/local"
QUICK = ["--epochs", "1", "--hidden", "2"]


@pytest.fixture
def cache(tmp_path: Path, graph: HandmadeGraph) -> Path:
    return make_cache(tmp_path / "cache", graph, np.zeros(graph.num_nodes, int), 1)


def sentence_of(capsys: pytest.CaptureFixture[str], arguments: list[str], *, status: int) -> str:
    """What a run with `arguments` says while it fails with `status`: one line, no traceback, no output."""
    assert main(arguments) == status
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.strip().splitlines()
    assert line.startswith("rank 0: ")
    return line


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def edit_shape(path: Path, length: float) -> None:
    document = json.loads(path.read_bytes())
    path.write_text(json.dumps({**document, "shape": [length]}))


def reseal(change: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """A damage that the manifest agrees with, as a faulty writer would leave it."""

    def damage(cache: Path) -> None:
        change(cache)
        seal(cache)

    return damage


def overwrite(name: str, values: np.ndarray) -> Callable[[Path], Any]:
    return reseal(lambda cache: cache.joinpath(name).write_bytes(values.tobytes()))


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no folder": (lambda cache: shutil.rmtree(cache), "there is no folder"),
    "no root": (lambda cache: (cache / "zarr.json").unlink(), "has no zarr.json"),
    "a store": (lambda cache: edit_json(cache / "zarr.json", graphprep_kind="store"), "not a partition cache"),
    "another format": (reseal(lambda cache: edit_json(cache / "zarr.json", graphprep_format=1)), "format 1"),
    "root is no JSON": (lambda cache: (cache / "zarr.json").write_text("{"), "is not JSON"),
    "no manifest": (lambda cache: (cache / "manifest.json").unlink(), "not a finished cache"),
    "no digest of the manifest": (lambda cache: (cache / "manifest.sha256").unlink(), "not a finished cache"),
    "another manifest": (lambda cache: flip_a_bit(cache / "manifest.json"), "manifest.json differs"),
    "root was edited": (lambda cache: edit_json(cache / "zarr.json", dataset="other"), "has "),
    "a label below -1": (overwrite(f"{NODES}/y/c/0", np.full(60, -5)), "names class -5"),
    "a mask of other bytes": (overwrite(f"{NODES}/train_mask/c/0/0", np.full(60, 3, np.uint8)), "truth values"),
    "a node that is not there": (overwrite(f"{NODES}/global_ids/c/0", np.full(60, 10**9)), "points outside"),
    "no such attribute": (
        reseal(lambda cache: edit_json(cache / "zarr.json", num_classes={"other": 3})),
        "lacks an attribute",
    ),
    "file gone": (lambda cache: (cache / NODES / "x/c/0/0").unlink(), "x/c/0/0 cannot be read"),
    "file cut short": (lambda cache: truncate(cache / NODES / "x/c/0/0"), "x/c/0/0 has "),
    "file cut short by the writer": (reseal(lambda cache: truncate(cache / NODES / "x/c/0/0")), "float32 needs"),
    "array never written": (reseal(lambda cache: shutil.rmtree(cache / NODES / "x/c")), "is not listed"),
    "array absent": (reseal(lambda cache: shutil.rmtree(cache / NODES / "y")), "is not listed"),
    "type swapped": (
        lambda cache: edit_json(cache / LOCAL / "indices/zarr.json", data_type="uint16"),
        "zarr.json has ",
    ),
    "type swapped by the writer": (
        reseal(lambda cache: edit_json(cache / LOCAL / "data/zarr.json", data_type="int32")),
        "gives the type int32 where float32 belongs",
    ),
    "type of the same length swapped": (
        lambda cache: edit_json(cache / f"{LOCAL}/indptr/zarr.json", data_type="int64"),
        "differs from its checksum",
    ),
    "compressed": (
        reseal(lambda cache: edit_json(cache / f"{NODES}/x/zarr.json", codecs=[{"name": "zstd"}])),
        "not one plain little-endian chunk",
    ),
    "big-endian": (
        reseal(
            lambda cache: edit_json(
                cache / f"{NODES}/x/zarr.json", codecs=[{"name": "bytes", "configuration": {"endian": "big"}}]
            )
        ),
        "not one plain little-endian chunk",
    ),
    "columns outside": (
        lambda cache: overwrite(
            f"{LOCAL}/indices/c/0", np.full((cache / f"{LOCAL}/indices/c/0").stat().st_size // 4, 60, np.int32)
        )(cache),
        "points outside 0 .. 59",
    ),
    "rows out of order": (
        lambda cache: overwrite(f"{LOCAL}/indptr/c/0", np.arange(61, dtype=np.int32)[::-1].copy())(cache),
        "does not run from 0",
    ),
    "class outside": (overwrite(f"{NODES}/y/c/0", np.full(60, 3)), "names class 3 of 3"),
    "JSON that nests without end": (
        lambda cache: (cache / "zarr.json").write_bytes(b"[" * 100_000),
        "zarr.json has JSON that is nested too deeply",
    ),
    "a number of 10,000 digits": (
        lambda cache: (cache / "zarr.json").write_bytes(b"[" + b"9" * 10_000 + b"]"),
        "zarr.json is not JSON",
    ),
    "an infinite number of parts": (
        reseal(lambda cache: edit_json(cache / "zarr.json", num_parts=float("inf"))),
        "has one of the wrong form",
    ),
    "an infinite shape": (
        reseal(lambda cache: edit_shape(cache / NODES / "y/zarr.json", float("inf"))),
        "does not describe an array",
    ),
    "a shape of exabytes": (
        reseal(lambda cache: edit_shape(cache / NODES / "y/zarr.json", 2**60)),
        "describes an array that is not one plain",
    ),
    "too few ranks": (
        reseal(lambda cache: edit_json(cache / "zarr.json", topology=flat_topology(2))),
        "does not list 1 ranks",
    ),
    "a rank without machine": (
        reseal(lambda cache: edit_json(cache / "zarr.json", topology={"ranks": [{"name": "gpu0"}]})),
        "malformed rank",
    ),
}


@pytest.mark.parametrize("damage", list(DAMAGES))
def test_damage_is_named_in_one_sentence(cache: Path, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    """A damaged cache that is mapped all the same trains on noise, or crashes in a kernel."""
    do, expected = DAMAGES[damage]
    do(cache)
    assert expected in sentence_of(capsys, [str(cache), *QUICK], status=6)


def test_a_flipped_bit_is_found_on_request(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One wrong bit in a payload changes no size; --verify is what finds it, and sound files pass it."""
    assert main([str(cache), *QUICK, "--verify", "-q"]) == 0
    capsys.readouterr()
    flip_a_bit(cache / NODES / "x/c/0/0")
    assert main([str(cache), *QUICK, "-q"]) == 0
    capsys.readouterr()
    line = sentence_of(capsys, [str(cache), *QUICK, "--verify"], status=6)
    assert "x/c/0/0 differs from its checksum" in line
    assert "graphprep verify" in line


@pytest.mark.parametrize(
    ("changes", "status", "expected"),
    [
        ({"task": "multilabel"}, 6, "gives the type int64"),
        ({"task": "none", "num_classes": {"node": 0}}, 7, "no labels"),
        ({"num_splits": {"node": 0}}, 7, "masks"),
        ({"edge_types": {"node__to__node": 1, "node__of__node": 1}}, 7, "are trained with --model rgcn"),
        ({"edge_types": {"a__to__b": 1}}, 6, "no node type for an end of a__to__b"),
        ({"node_types": {}}, 6, "no node type"),
        (
            {"num_parts": 4, "slowest_links": [[""] * 4] * 4},
            7,
            "has 4 parts and this run 1 rank; start it with torchrun --nproc-per-node 4",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused(
    cache: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], status: int, expected: str
) -> None:
    """A graph without labels, or with kinds that are not known here, would fail deep in the first epoch."""
    edit_json(cache / "zarr.json", **changes)
    seal(cache)
    assert expected in sentence_of(capsys, [str(cache), *QUICK], status=status)


def test_a_split_that_is_not_there_is_a_wrong_option(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Column 1 of masks with one column is out of bounds."""
    assert "--split 1" in sentence_of(capsys, [str(cache), "--split", "1"], status=2)


def test_a_split_without_training_nodes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sum over no node divided by no node is NaN. Unlabelled nodes are no training nodes."""
    graph = random_graph()
    graph.y[graph.masks["train_mask"][:, 0]] = -1
    make_cache(tmp_path / "cache", graph, np.zeros(60, int), 1)
    line = sentence_of(capsys, [str(tmp_path / "cache"), *QUICK], status=7)
    assert "no labelled training node in split 0" in line


def test_an_address_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Files are mapped, and only local files can be."""
    assert "not a local folder" in sentence_of(capsys, ["s3://bucket/cache"], status=6)


def test_debug_shows_where_it_was_raised(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a traceback under --debug, nobody can report an error usefully."""
    assert main(["/no/such/folder", "--debug"]) == 6
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("links", [None, [], [["", "network"]], [[""], ["network", ""]], "ab", [1, 2]])
def test_malformed_link_types_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], links: object
) -> None:
    """A traceback after hours of training, when the table of bytes is made, loses the result."""
    folder = make_cache(tmp_path / "cache", random_graph(), np.arange(60) % 2, 2)
    edit_json(folder / "zarr.json", slowest_links=links)
    seal(folder)
    assert "slowest_links" in sentence_of(capsys, [str(folder), *QUICK], status=6)


def test_bfloat16_features_are_mapped_as_they_lie(tmp_path: Path) -> None:
    """Guards against bits that are trained on as whole numbers."""
    graph = random_graph()
    narrow = torch.from_numpy(graph.x).to(torch.bfloat16)
    graph.x = narrow.view(torch.int16).numpy().view(np.uint16)
    cache = open_cache(str(make_cache(tmp_path / "cache", graph, np.arange(60) % 2, 2)))
    part = load_part(cache, 1, split=0)
    assert part.x_nF is not None
    assert part.x_nF.dtype == torch.bfloat16
    assert torch.equal(part.x_nF, narrow[part.ids_n])


@pytest.mark.parametrize("width", [(), (1,), (3,)])
def test_a_part_without_edges_has_their_features(width: tuple[int, ...], tmp_path: Path) -> None:
    """Guards against a run that ends because one part, or one pair of parts, has no edge."""
    graph = random_graph()
    graph.edge_arrays = {"price": np.ones((len(graph.src), *width), np.float32)}
    graph.src, graph.dst = graph.src % 40, graph.dst % 40
    cache = open_cache(str(make_cache(tmp_path / "cache", graph, (np.arange(60) >= 40).astype(int), 2)))
    features = load_part(cache, 1, split=0, edge_features="price").local.features
    assert features is not None
    assert features.shape == (0, *(width or (1,)))


@pytest.mark.parametrize("kind", ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))])
def test_whole_numbers_are_features_too(kind: str, tmp_path: Path) -> None:
    """Guards against features that were imported and partitioned, and are refused when they are to be learnt from."""
    graph = random_graph(num_features=60)
    graph.x = np.where(np.random.default_rng(3).random(graph.x.shape) < 1 / 30, 3, 0).astype(kind)
    folder = make_cache(tmp_path / "cache", graph, np.zeros(60, int), 1)
    edit_json(folder / "parts/0/nodes/node/x/zarr.json", attributes={})
    seal(folder)
    part = load_part(open_cache(str(folder)), 0, split=0)
    assert part.x_nF is not None
    assert torch.equal(part.x_nF.float(), torch.from_numpy(graph.x.astype(np.float32))[part.ids_n])
    assert count_entries(part.x_nF) == np.count_nonzero(graph.x)
    rows = SparseRows.of(part.x_nF, torch.device("cpu"), torch.float32)
    assert torch.equal(rows.dense(), part.x_nF.float())


def test_bits_of_something_else_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against numbers of a later release that are taken for those of this one."""
    graph = random_graph()
    graph.x = np.zeros(graph.x.shape, np.uint16)
    folder = make_cache(tmp_path / "cache", graph, np.zeros(60, int), 1)
    file = folder / "parts/0/nodes/node/x/zarr.json"
    file.write_text(file.read_text().replace("bfloat16", "float16"))
    seal(folder)
    assert "bits of float16" in sentence_of(capsys, [str(folder), *QUICK], status=6)


def test_a_part_is_what_was_written(tmp_path: Path) -> None:
    """Reading a mask's wrong column, or a mask of another row order, trains on the test nodes."""
    graph = random_graph()
    graph.masks["train_mask"] = np.c_[graph.masks["train_mask"], ~graph.masks["train_mask"]]
    for name in ("val_mask", "test_mask"):
        graph.masks[name] = np.c_[graph.masks[name], graph.masks[name]]
    assignment = np.arange(60) % 3
    folder = make_cache(tmp_path / "cache", graph, assignment, 3, index_dtype="int64")
    cache = open_cache(str(folder))
    for number in range(3):
        ids = np.fromfile(folder / f"parts/{number}/nodes/node/global_ids/c/0", np.int64)
        part = load_part(cache, number, split=1)
        assert part.x_nF.tolist() == graph.x[ids].tolist()
        assert part.y.tolist() == graph.y[ids].tolist()
        assert part.train_n.tolist() == graph.masks["train_mask"][ids, 1].tolist()
        assert part.val_n.tolist() == graph.masks["val_mask"][ids, 1].tolist()
        assert part.local.weights is None
        assert set(part.remote) == {0, 1, 2} - {number}


def test_parts_of_two_caches_do_not_meet(tmp_path: Path) -> None:
    """Two parts that disagree on how many rows pass between them wait for each other for ever."""
    from trainer.base.errors import CacheError
    from trainer.exchange.exchange import boundary_counts, check_boundaries

    graph = random_graph()
    parts = [
        load_part(open_cache(str(make_cache(tmp_path / name, graph, assignment, 2))), number, split=0)
        for number, (name, assignment) in enumerate({"a": np.arange(60) % 2, "b": np.arange(60) // 30}.items())
    ]
    with pytest.raises(CacheError, match="not of one cache"):
        check_boundaries([boundary_counts(part) for part in parts])


def test_training_needs_no_validation_node(tmp_path: Path) -> None:
    """Early stopping on nothing must not stop at once, and an accuracy of nothing is not 0."""
    import torch

    graph = random_graph()
    graph.masks["val_mask"][:] = False
    cache = make_cache(tmp_path / "cache", graph, np.zeros(60, int), 1)
    cpu = torch.device("cpu")
    with Communicator(RankInfo(), cpu, timeout=1.0, clock=Clock(cpu)) as communicator:
        run = train_once(communicator, cache=str(cache), epochs=5, patience=2)
    assert (run.result["epochs"], run.result["best_epoch"], run.result["val_accuracy"]) == (5, 5, None)
    assert run.result["test_accuracy"] is not None
