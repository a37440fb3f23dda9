"""Runs tests in processes of their own, since a process keeps the device once it is registered."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.forks import fork_context
from tests.simulated_device.device import install


def on_device(test: Callable[..., None]) -> Callable[..., None]:
    """A test function that runs in a forked process, in which the device is registered.

    It is one of a module, and its arguments travel by pickle.
    """

    @functools.wraps(test)
    def in_process(**arguments: Any) -> None:
        fork_context()
        try:
            torch.multiprocessing.start_processes(
                _run, args=(test.__module__, test.__name__, arguments), nprocs=1, start_method="forkserver"
            )
        except torch.multiprocessing.ProcessRaisedException as error:
            pytest.fail(str(error).strip()[:6000], pytrace=False)

    return in_process


def _run(_number: int, module: str, name: str, arguments: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    install()
    try:
        getattr(importlib.import_module(module), name).__wrapped__(**arguments)
    except pytest.fail.Exception as failure:  # which is no Exception
        raise AssertionError(str(failure)) from failure
