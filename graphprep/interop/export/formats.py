"""The formats by name."""

from __future__ import annotations

from collections.abc import Mapping

from graphprep.errors import UsageError
from graphprep.export.dgl import DglFormat
from graphprep.export.format import ExportFormat
from graphprep.export.npz import NpzFormat
from graphprep.export.pyg import PygFormat
from graphprep.nearest import nearest

_FORMATS: tuple[ExportFormat, ...] = (DglFormat(), PygFormat(), NpzFormat())
FORMATS: Mapping[str, ExportFormat] = {found.name: found for found in _FORMATS}


def export_format(name: str) -> ExportFormat:
    """Raises:
    UsageError: there is no such format.
    """
    try:
        return FORMATS[name]
    except KeyError:
        raise UsageError(
            f"--format {name!r} is unknown{nearest(name, FORMATS)}; use one of {', '.join(FORMATS)}"
        ) from None
