"""Gathers scored pairs on rank 0 and writes them as a table: a row a pair, edges first, then by both nodes' numbers.

    FILE.csv    a line of names, and a line a pair; `source` and `destination` are numbers in the dataset's own order
    FILE.pt     the same columns as a dictionary of tensors (torch.load with weights_only=True)

Rank 0 holds the pairs of all ranks.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from trainer.base.atomic import partial_of, publish
from trainer.base.errors import TrainingError
from trainer.dist.communicator import Communicator

_AT_A_TIME = 1 << 16


def save_pairs(file: str, columns: dict[str, Tensor], communicator: Communicator) -> None:
    """Write the pairs of all ranks to `file`; every rank has to call it.

    Args:
        file: ends in .csv or .pt.
        columns: of this rank's pairs: source and destination, and others in the order of the table; int64 or float32,
            the same names on every rank.
        communicator: the ranks of the run.

    Raises:
        TrainingError: it cannot be written.
    """
    counts = [facts["pairs"] for facts in communicator.all_gather_object({"pairs": len(columns["source"])})]
    everything = {name: [column.to(communicator.device).contiguous()] for name, column in columns.items()}
    for own in everything.values():
        if not communicator.is_main:
            communicator.exchange({0: own[0]}, {}, purpose="saved rows").wait()
            continue
        for peer in communicator.peers:
            received = own[0].new_empty(counts[peer])
            communicator.exchange({}, {peer: received}, purpose="saved rows").wait()
            own.append(received)
    if not communicator.is_main:
        return
    table = _sorted({name: torch.cat(pieces).cpu() for name, pieces in everything.items()})
    path = Path(file)
    partial = partial_of(path)
    try:
        if path.suffix == ".pt":
            torch.save(table, partial)
        else:
            _write_csv(table, partial)
        publish(partial, path)
    except OSError as error:
        raise TrainingError(f"{path} cannot be written ({error.strerror}); give another path") from error
    finally:
        partial.unlink(missing_ok=True)


def _sorted(table: dict[str, Tensor]) -> dict[str, Tensor]:
    """In an order that does not depend on the number of ranks."""
    order = torch.arange(len(table["source"]))
    for name in ("destination", "source"):
        order = order[table[name][order].argsort(stable=True)]
    if "is_edge" in table:
        order = order[table["is_edge"][order].argsort(stable=True, descending=True)]
    return {name: column[order] for name, column in table.items()}


def _write_csv(table: dict[str, Tensor], path: Path) -> None:
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.write(",".join(table) + "\n")
        for begin in range(0, len(table["source"]), _AT_A_TIME):
            pieces = [column[begin : begin + _AT_A_TIME].tolist() for column in table.values()]
            file.writelines(",".join(map(_word, row)) + "\n" for row in zip(*pieces, strict=True))


def _word(value: float) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
