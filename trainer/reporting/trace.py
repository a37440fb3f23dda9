"""A rank's activities over time, as a file that chrome://tracing, Perfetto and TensorBoard open.

One file a rank, since ranks may run on machines that share no disk. Times count from when the ranks had all connected,
so that the files of one run can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from trainer.base.errors import TrainingError
from trainer.base.sent_bytes import KINDS


def prepare_traces(folder: str) -> None:
    """Make the folder, before anything is trained.

    Raises:
        TrainingError: it cannot be made.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainingError(f"the trace folder {folder} cannot be made ({error.strerror}); give another") from error


def write_trace(
    folder: str,
    rank: int,
    spans: Sequence[tuple[str, float, float]],
    sent: Sequence[tuple[float, Sequence[int]]] = (),
    *,
    start: float,
    threads: Sequence[Sequence[tuple[str, float, float]]] = (),
) -> None:
    """Write the spans of one rank to `folder`/rank-R.json; those of its samplers are a row of their own.

    Args:
        folder: that `prepare_traces` made.
        rank: whose they are.
        spans: activity, begin and end in seconds.
        sent: points of curves: a second, and the bytes that had left the rank by then, in the order of `KINDS`.
        start: the second that counts as 0.
        threads: the spans of further threads of the rank.

    Raises:
        TrainingError: the file cannot be written.
    """
    events = [
        {"name": name, "ph": "X", "pid": rank, "tid": thread or int(name == "sample")}
        | {"ts": (begin - start) * 1e6, "dur": (end - begin) * 1e6}
        for thread, of_thread in enumerate([spans, *threads])
        for name, begin, end in of_thread
    ]
    events += [
        {"name": "bytes sent", "ph": "C", "pid": rank, "tid": 0, "ts": (at - start) * 1e6}
        | {"args": dict(zip(KINDS, numbers, strict=True))}
        for at, numbers in sent
    ]
    name = {"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}}
    path = Path(folder, f"rank-{rank}.json")
    try:
        path.write_text(json.dumps({"traceEvents": [name, *events], "displayTimeUnit": "ms"}))
    except OSError as error:
        raise TrainingError(f"the trace {path} cannot be written ({error.strerror}); give another --trace") from error
