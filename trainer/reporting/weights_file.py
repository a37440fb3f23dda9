"""Writes weights by name to one file that other programs read.

FILE.safetensors    Hugging Face's format: the length of a header, the header as JSON, and the values, so that no
                    code runs where it is read (safetensors.torch.load_file)
FILE.pt             a dictionary of tensors, as torch.save writes it (torch.load with weights_only=True)
"""

from __future__ import annotations

import ctypes
import io
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from trainer.base.atomic import write_whole
from trainer.base.errors import TrainingError

_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_ALIGNED = 8
"""Values begin at a multiple of as many bytes."""


def write_weights(file: str, weights: Mapping[str, Tensor]) -> None:
    """Write weights, in place of what is at `file`.

    Args:
        file: ends in .safetensors or .pt.
        weights: of any shapes, types and devices.

    Raises:
        TrainingError: it cannot be written.
    """
    on_host = {name: value.detach().cpu().contiguous() for name, value in weights.items()}
    try:
        write_whole(Path(file), _safetensors(on_host) if file.endswith(".safetensors") else _pickled(on_host))
    except OSError as error:
        raise TrainingError(f"{file} cannot be written ({error.strerror}); give another path") from error


def _safetensors(weights: Mapping[str, Tensor]) -> bytes:
    header, payload = dict[str, object](), []
    size = 0
    for name, value in weights.items():
        content = ctypes.string_at(value.data_ptr(), value.nbytes)  # torch may be here without NumPy
        header[name] = {
            "dtype": _TYPES[value.dtype],
            "shape": list(value.shape),
            "data_offsets": [size, size + len(content)],
        }
        payload.append(content)
        size += len(content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNED)
    return b"".join([len(text).to_bytes(8, "little"), text, *payload])


def _pickled(weights: Mapping[str, Tensor]) -> bytes:
    content = io.BytesIO()
    torch.save(dict(weights), content)
    return content.getvalue()
