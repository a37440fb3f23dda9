"""Options on both sides of torchrun, and where a rank finds itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphprep.errors import UsageError
from graphprep.topology.probe.options import ProbeOptions, parse
from graphprep.topology.probe.rank_info import Place, RankInfo, ranks_of
from graphprep.topology.probe.run import check_together

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"backend": "gloo", "replace": True, "quiet": True},
        {"sizes": (1, 2), "seconds": 0.5, "timeout": 7.0, "debug": True},
    ],
)
def test_ranks_get_the_options_that_the_command_line_got(changes: dict[str, Any]) -> None:
    """Guards against an option that is lost on the way through torchrun."""
    options = ProbeOptions(out=Path("x.yaml"), name="a-name", **changes)
    assert parse(options.to_arguments()) == options


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--out"),
        (["--out", "x", "--sizes", "4096"], "two or more different sizes"),
        (["--out", "x", "--sizes", "8,4"], "the smallest first"),
        (["--out", "x", "--sizes", "0,4"], "between 1 and"),
        (["--out", "x", "--sizes", "1,many"], "must be whole numbers with commas between them, e.g. 4096,1048576"),
        (["--out", "x", "--seconds", "nan"], "--seconds nan must be above 0"),
        (["--out", "x", "--seconds", "0"], "--seconds 0 must be above 0"),
        (["--out", "x", "--seconds", "1e9"], "at most 3600"),
        (["--out", "x", "--timeout", "-1"], "--timeout -1 must be above 0"),
        (["--out", "x", "--backend", "mpi"], "mpi"),
        (["--out", "x", "--name", "a/b"], "cannot name a cache's folder"),
        (["--out", "x", "--nproc", "4"], "--nproc"),
    ],
)
def test_wrong_options_are_one_sentence(arguments: list[str], words: str) -> None:
    """Guards against argparse's own exit, and numbers that would run for ever."""
    with pytest.raises(UsageError) as caught:
        parse(arguments)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sizes() -> None:
    """Guards against spaces after commas that are an error."""
    assert parse(["--out", "x", "--sizes", "1, 20,300"]).sizes == (1, 20, 300)


def test_a_rank_is_what_torchrun_says() -> None:
    """Guards against ranks that take themselves for others."""
    assert RankInfo.from_environment(TORCHRUN) == RankInfo(rank=3, world=4, local_rank=1)


@pytest.mark.parametrize("changes", [{"RANK": ""}, {"RANK": "x"}, {"WORLD_SIZE": "1"}, {"WORLD_SIZE": "100000"}])
def test_a_rank_without_torchrun(changes: dict[str, str]) -> None:
    """Guards against a module started by itself that waits for others, or dies of a KeyError."""
    with pytest.raises(UsageError, match="start the ranks with torchrun"):
        RankInfo.from_environment(TORCHRUN | changes)


def place(host: str, device: int, model: str | None = "H100") -> Place:
    return Place(host=host, device=device, model=model, memory_gb=80.0 if model else None)


def test_ranks_by_host() -> None:
    """Guards against ranks of two hosts on one machine, and GPUs without their numbers."""
    places = [place("node-b", 0), place("node-b", 1), place("node-a", 0)]
    ranks = ranks_of(places)
    assert [(rank.name, rank.machine, rank.host, rank.device, rank.memory_gb) for rank in ranks] == [
        ("m0.gpu0", "m0", "node-b", 0, 80.0),
        ("m0.gpu1", "m0", "node-b", 1, 80.0),
        ("m1.gpu0", "m1", "node-a", 0, 80.0),
    ]
    assert Place.from_text(places[1].to_text()) == places[1]


def test_two_runs_of_torchrun_on_one_host() -> None:
    """Guards against two ranks of one name and one device, which no reader of the file accepts."""
    ranks = ranks_of([place("a", 0, None), place("a", 0, None)])
    assert [(rank.name, rank.device) for rank in ranks] == [("m0.cpu0", None), ("m0.cpu1", None)]


def test_ranks_with_and_without_a_gpu() -> None:
    """Guards against NCCL on one side and gloo on the other, which wait for each other."""
    check_together([place("a", 0), place("b", 0)])
    with pytest.raises(UsageError, match=r"rank 0 on a has a GPU and rank 1 on b has no GPU; use --backend gloo"):
        check_together([place("a", 0), place("b", 0, None)])
