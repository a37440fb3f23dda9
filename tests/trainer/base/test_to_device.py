"""Copies to a device."""

from __future__ import annotations

import pytest
import torch

from tests.simulated_device.device import NAME
from tests.simulated_device.processes import on_device
from tests.simulated_device.waits import recorded
from trainer.base.to_device import to_device


@pytest.mark.slow
@on_device
def test_copies_do_not_wait() -> None:
    """A plain copy makes the host wait for all that a GPU has been given to do; on a CPU none is needed."""
    values = torch.arange(3)
    with recorded() as waits:
        copied = to_device(values, torch.device(NAME, 0))
    assert not waits
    assert copied.tolist() == [0, 1, 2]
    assert to_device(values, torch.device("cpu")) is values
