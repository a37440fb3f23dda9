"""Where ranks may run."""

from __future__ import annotations

import pytest
import torch

from trainer.base.errors import OptionError, TrainingError
from trainer.config.options import Options
from trainer.dist.device_placement import Place, check_devices, check_hosts, choose_device
from trainer.dist.rank_info import RankInfo


def place(name: str, machine: str, host: str | None = None) -> Place:
    return Place(name=name, machine=machine, host=host, gpu=None)


TWO_BY_TWO = [place("a0", "m0"), place("a1", "m0"), place("b0", "m1"), place("b1", "m1")]


def test_machines_on_their_own_hosts_are_silent() -> None:
    """A check that cries at the right placement is switched off by its users."""
    assert check_hosts(TWO_BY_TWO, ["h0", "h0", "h1", "h1"]) is None


def test_two_machines_on_one_host_are_a_rehearsal() -> None:
    """Timings of a rehearsal taken for the real ones mislead, so it is said."""
    said = check_hosts(TWO_BY_TWO, ["h"] * 4)
    assert said is not None
    assert "rehearsal" in said


def test_one_machine_on_two_hosts_is_an_error_naming_both_ranks() -> None:
    """Ranks that were placed for NVLink and talk over the network make the partition pointless, in silence."""
    with pytest.raises(TrainingError, match=r"rank 0 \(a0\) and rank 1 \(a1\) on the same machine m0") as caught:
        check_hosts(TWO_BY_TWO, ["h0", "h1", "h1", "h0"])
    assert "h0 and h1" in str(caught.value)


def test_a_named_host_has_to_be_the_host() -> None:
    """Ranks that start in another order than the topology's get each other's parts."""
    named = [place("a0", "m0", "node1"), place("b0", "m1", "node2.example.org")]
    assert check_hosts(named, ["node1.example.org", "node2"]) is None
    with pytest.raises(TrainingError, match=r"rank 1 \(b0\) runs on host node3"):
        check_hosts(named, ["node1", "node3"])


def test_cuda_without_a_gpu_is_a_wrong_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU, auto is the CPU, and cuda says so before it fails inside torch."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device(Options(cache="c"), RankInfo(), None) == torch.device("cpu")
    with pytest.raises(OptionError, match="--device cpu"):
        choose_device(Options(cache="c", device="cuda"), RankInfo(), None)


def test_each_rank_takes_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL cannot run two ranks on one GPU; auto then takes the CPU on every rank of the machine."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    second = RankInfo(rank=3, world=4, local_rank=1, local_world=2)
    assert choose_device(Options(cache="c"), second, None) == torch.device("cuda", 1)
    assert choose_device(Options(cache="c"), second, 0) == torch.device("cuda", 0)
    crowded = RankInfo(rank=0, world=4, local_rank=0, local_world=4)
    assert choose_device(Options(cache="c"), crowded, None) == torch.device("cpu")
    with pytest.raises(TrainingError, match="4 ranks have 2 GPU"):
        choose_device(Options(cache="c", device="cuda"), crowded, None)


def test_ranks_on_different_kinds_of_devices_are_refused() -> None:
    """gloo on one rank and NCCL on the other wait for each other until the timeout."""
    check_devices(["cuda:0", "cuda:1", "cuda:0"], ["h0", "h0", "h1"])
    check_devices(["cpu", "cpu"], ["h0", "h0"])
    with pytest.raises(TrainingError, match="rank 1 on h1"):
        check_devices(["cuda:0", "cpu"], ["h0", "h1"])
    with pytest.raises(TrainingError, match="rank 0 and rank 1 share GPU"):
        check_devices(["cuda:0", "cuda:0"], ["h0", "h0"])
    check_devices(["cuda:0", "cuda:0"], ["h0", "h0"], may_share=True)
