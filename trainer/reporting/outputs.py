"""The output files of a run other than checkpoints and traces: its options and its result.

    OUTPUT/config.toml    every option, before training
    OUTPUT/history.jsonl  a line for each validated epoch, during training (trainer/reporting/history.py)
    OUTPUT/result.json    the result, as in the last line of `--json`

Where they go is checked before training. Rank 0 writes; the others need no disk in common with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.base.atomic import write_whole
from trainer.base.errors import TrainingError
from trainer.config.config import to_toml
from trainer.config.options import Options

CONFIG, RESULT = "config.toml", "result.json"


def prepare_outputs(options: Options) -> None:
    """Make the folders, write the options to them, and check that the other files can be written.

    The result of an earlier run in the same folder is removed: the options beside it are of another run from now on.

    Raises:
        TrainingError: a folder cannot be made or written to.
    """
    for flag, folder in (("--output", options.output), ("--checkpoint", options.checkpoint)):
        if folder is None:
            continue
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            if folder == options.output:
                Path(folder, RESULT).unlink(missing_ok=True)
            write_whole(Path(folder, CONFIG), to_toml(options).encode())
        except OSError as error:
            raise TrainingError(f"{flag} {folder} cannot be written to ({error.strerror}); give another") from error
    for flag, file, _ in options.saved_files:
        parent = Path(file).absolute().parent
        if Path(file).is_dir() or not parent.is_dir() or not os.access(parent, os.W_OK):
            raise TrainingError(f"{flag} {file} is no file in a folder that can be written to; give another path")


def write_result(options: Options, result: Mapping[str, Any]) -> None:
    """Write the result to the output folder, if there is one.

    Raises:
        TrainingError: it cannot be written.
    """
    if options.output is None:
        return
    path = Path(options.output, RESULT)
    try:
        write_whole(path, (json.dumps(result, allow_nan=False, indent=1) + "\n").encode())
    except OSError as error:
        raise TrainingError(f"the result {path} cannot be written ({error.strerror}); give another --output") from error
