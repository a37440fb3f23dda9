"""A model of the user's: `--model FILE.py:Class`.

The file is executed, as any program of the user's would be: give no file that you do not trust. The class is built with
a `Plan` and called with a `Graph`; docs/training.md shows one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from trainer.base.errors import OptionError, TrainerError, TrainingError, found_by_every_rank
from trainer.base.regular_file import regular_file
from trainer.config.options import own_model
from trainer.dist.communicator import Communicator

_SUMS = ("gcn", "mean", "sum", None)


def load(text: str, communicator: Communicator) -> type[nn.Module]:
    """The class that `FILE.py:Class` names; every rank has to call it.

    Raises:
        OptionError: there is no such file or class, it cannot be executed, or is no Module with known `sums`.
        TrainingError: the ranks have different files.
    """
    file, name = own_model(text)
    try:
        content = regular_file(Path(file)).read_bytes()
    except OSError as error:
        raise OptionError(f"--model {text}: cannot read {file} ({error.strerror})") from error
    digests = [
        facts["model"] for facts in communicator.all_gather_object({"model": hashlib.sha256(content).hexdigest()})
    ]
    with found_by_every_rank():
        for rank, digest in enumerate(digests):
            if digest != digests[0]:
                raise TrainingError(f"rank {rank} has another {file} than rank 0; copy one to all hosts")
    with found_by_every_rank():
        model = _load_attribute(text, file, name)
        if not (isinstance(model, type) and issubclass(model, nn.Module)):
            raise OptionError(f"--model {text}: {name} is no class of torch.nn.Module in {file}")
        sums = getattr(model, "sums", None)
        if sums not in _SUMS:
            raise OptionError(f"--model {text}: {name}.sums is {sums!r}; it may be gcn, mean, sum or None")
    return model


def _load_attribute(text: str, file: str, name: str) -> object:
    specification = importlib.util.spec_from_file_location("own_model", file)
    if specification is None or specification.loader is None:
        raise OptionError(f"--model {text}: {file} is no Python file; its name has to end with .py")
    module = importlib.util.module_from_spec(specification)
    folder = str(Path(file).absolute().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # last, so that the files beside it can be imported and shadow no other module
    with in_words(text, OptionError):
        specification.loader.exec_module(module)
    if not hasattr(module, name):
        raise OptionError(f"--model {text}: {file} defines no {name}")
    return getattr(module, name)


@contextmanager
def in_words(text: str, kind: type[TrainerError]) -> Iterator[None]:
    """Turn an exception of the user's code into one sentence that says where."""
    try:
        yield
    except TrainerError:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)
        frames = [frame for frame in last if frame.filename == own_model(text)[0]] or list(last)
        where = f"line {frames[-1].lineno} of {frames[-1].filename}" if frames else own_model(text)[0]
        message = " ".join(str(error).split()) or "no message"
        raise kind(
            f"--model {text}: {type(error).__name__} in {where}: {message}; --debug shows the traceback"
        ) from error


def check_scores(text: str, scores: object, num_rows: int, num_classes: int) -> Tensor:
    """The output of a user's model, if it is one row of scores a node.

    Raises:
        TrainingError: it is something else.
    """
    expected = f"a float tensor [{num_rows}, {num_classes}]"
    if not isinstance(scores, Tensor):
        raise TrainingError(f"--model {text} gave a {type(scores).__name__} where {expected} belongs")
    if tuple(scores.shape) != (num_rows, num_classes) or not torch.is_floating_point(scores):
        raise TrainingError(f"--model {text} gave {list(scores.shape)} of {scores.dtype} where {expected} belongs")
    return scores.float()
