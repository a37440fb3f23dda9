"""The formats by name."""

from __future__ import annotations

from collections.abc import Mapping

from graphprep.errors import UsageError
from graphprep.interop.export.dgl import DglFormat
from graphprep.interop.export.format import ExportFormat
from graphprep.interop.export.npz import NpzFormat
from graphprep.interop.export.pyg import PygFormat
from graphprep.system.nearest import nearest

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
