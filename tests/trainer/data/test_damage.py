"""Whatever happens to a cache's files, a run ends with a sentence or trains; it dies of no signal and no traceback."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.soak import soak_count
from tests.trainer.handmade_cache import HandmadeGraph, make_cache, seal
from trainer.__main__ import main

TRAINS, WRONG_USE, CACHE, TRAINING = 0, 2, 6, 7
KINDS = ("change", "truncate", "extend", "delete", "zeros", "ones")


def damage(victim: Path, kind: str, rng: np.random.Generator) -> None:
    content = bytearray(victim.read_bytes())
    if kind == "delete":
        victim.unlink()
        return
    place = int(rng.integers(len(content)))
    if kind == "change":
        content[place] ^= 1 << int(rng.integers(8))
    elif kind == "truncate":
        del content[place:]
    elif kind == "extend":
        content += bytes(rng.integers(0, 256, int(rng.integers(1, 9)), np.uint8))
    else:
        content[place : place + 8] = (b"\0" if kind == "zeros" else b"\xff") * len(content[place : place + 8])
    victim.write_bytes(content)


@pytest.mark.soak
@pytest.mark.parametrize("sealed", [False, True], ids=["damaged later", "written so"])
def test_a_damaged_cache_ends_in_a_sentence(
    tmp_path: Path, graph: HandmadeGraph, sealed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against indices of a damaged file that kernels follow out of their arrays."""
    rng = np.random.default_rng(7)
    whole = make_cache(tmp_path / "whole", graph, np.zeros(graph.num_nodes, int), 1)
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    files = [path for path in files if not sealed or not path.name.startswith("manifest")]
    for trial in range(soak_count(300)):
        cache = Path(shutil.copytree(whole, tmp_path / f"{trial}"))
        victim, kind = files[int(rng.integers(len(files)))], str(rng.choice(KINDS))
        damage(cache / victim, kind, rng)
        if sealed:
            seal(cache)
        status = main([str(cache), "--epochs", "1", "--hidden", "2", "-q", "--device", "cpu"])
        said = capsys.readouterr().err
        assert status in (TRAINS, WRONG_USE, CACHE, TRAINING), (victim, kind, said)
        assert "Traceback" not in said
        assert "internal error" not in said, (victim, kind, said)
        shutil.rmtree(cache)
