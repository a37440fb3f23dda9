"""Gathers the rows of all nodes on rank 0, in the dataset's own node order: predictions, embeddings, learnt rows.

    FILE.npy    NumPy's format 1.0 (np.load, also with mmap_mode; allow_pickle is not needed): float32 [N, F], C order
    FILE.pt     a tensor as torch.save writes it (torch.load with weights_only=True): float32 [N, F]

Each rank sends its rows with their nodes' numbers to rank 0, one rank after the other, and rank 0 writes them to their
places in a file that is mapped into memory. So no rank has more than one part's rows in memory, ranks need no common
disk, and the file gets its name when it is whole.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor

from trainer.base.atomic import partial_of, publish
from trainer.base.errors import TrainingError
from trainer.base.sent_bytes import Purpose
from trainer.dist.communicator import Communicator


def save_node_rows(file: str, rows_nF: Tensor, ids_n: Tensor, *, num_nodes: int, communicator: Communicator) -> None:
    """Write the rows of all ranks to `file`; every rank has to call it.

    Args:
        file: ends in .npy or .pt.
        rows_nF: this rank's rows.
        ids_n: int64 [n], the number of each row's node.
        num_nodes: N.
        communicator: the ranks of the run.

    Raises:
        TrainingError: it cannot be written.
    """
    path, width = Path(file), rows_nF.shape[1]
    if not communicator.is_main:
        _gather(None, rows_nF, ids_n, communicator, "saved rows")
        return
    partial, header = partial_of(path), _npy_header(num_nodes, width) if path.suffix == ".npy" else b""
    try:
        all_rows_NF = _mapped(partial, num_nodes, width, header)
        _gather(all_rows_NF, rows_nF, ids_n, communicator, "saved rows")
        if path.suffix == ".pt":
            saved = partial_of(partial)
            torch.save(all_rows_NF, saved)
            saved.replace(partial)
        del all_rows_NF
        publish(partial, path)
    except OSError as error:
        raise TrainingError(f"{path} cannot be written ({error.strerror}); give another path") from error
    finally:
        partial.unlink(missing_ok=True)


def gather_rows(rows_nF: Tensor, ids_n: Tensor, *, num_nodes: int, communicator: Communicator) -> Tensor:
    """The rows of all ranks: float32 [N, F] in rank 0's memory, and [0, F] elsewhere; every rank has to call it."""
    all_rows_NF = torch.zeros(num_nodes if communicator.is_main else 0, rows_nF.shape[1])
    _gather(all_rows_NF if communicator.is_main else None, rows_nF, ids_n, communicator, "checkpoints")
    return all_rows_NF


def _gather(
    all_rows_NF: Tensor | None, rows_nF: Tensor, ids_n: Tensor, communicator: Communicator, purpose: Purpose
) -> None:
    """Write the rows of all ranks to `all_rows_NF`, one rank after the other; it is None but on rank 0."""
    rows_nF, ids_n = rows_nF.detach().float().contiguous(), ids_n.to(communicator.device).contiguous()
    counts = [facts["rows"] for facts in communicator.all_gather_object({"rows": len(ids_n)})]
    if all_rows_NF is None:
        for sent in (ids_n, rows_nF):
            communicator.exchange({0: sent}, {}, purpose=purpose).wait()
        return
    all_rows_NF.index_copy_(0, ids_n.cpu(), rows_nF.cpu())
    for peer in communicator.peers:
        ids, rows = ids_n.new_empty(counts[peer]), rows_nF.new_empty(counts[peer], rows_nF.shape[1])
        for received in (ids, rows):
            communicator.exchange({}, {peer: received}, purpose=purpose).wait()
        all_rows_NF.index_copy_(0, ids.cpu(), rows.cpu())


def _mapped(file: Path, num_nodes: int, width: int, header: bytes) -> Tensor:
    """A new file of float32 rows after `header`, mapped for writing, with all its blocks on the disk."""
    size = len(header) + num_nodes * width * 4
    with file.open("wb") as new:
        new.write(header)
        new.truncate(size)
        if hasattr(os, "posix_fallocate") and size:
            # A full disk is an error here, and no SIGBUS later.
            os.posix_fallocate(new.fileno(), 0, size)
    content = torch.from_file(str(file), shared=True, size=size, dtype=torch.uint8)
    return content[len(header) :].view(torch.float32).view(num_nodes, width)


def _npy_header(num_nodes: int, width: int) -> bytes:
    """The header of NumPy's format 1.0, padded so that the rows begin at a multiple of 64 bytes."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({num_nodes}, {width}), }}"
    length = -(len(text) + 11) % 64 + len(text) + 1
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + text.ljust(length - 1).encode() + b"\n"
