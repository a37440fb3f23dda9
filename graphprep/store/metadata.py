"""Checksums of a store's metadata (zarr.json files), which the checksums of its arrays do not cover.

    zarr_json           {path of a group or array: SHA-256 of its zarr.json}
    zarr_json_sha256    SHA-256 of the root's own zarr.json, in which 64 zeros stand for this value

Both are root attributes. Stores of older versions have neither.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphprep.store.location import files_below, read_file, write_file
from graphprep.system.files.output_path import ZARR_JSON

CHECKSUMS, ROOT_CHECKSUM = "zarr_json", "zarr_json_sha256"
NOT_YET = "0" * 64


def write_root(place: Path | str, attributes: Mapping[str, Any]) -> None:
    """Write the root's zarr.json in one piece, after everything else.

    Args:
        place: path or URL of the store.
        attributes: of the root; the checksums are added.
    """
    found = {path: read_file(place, path) for path in files_below(place) if path.endswith(f"/{ZARR_JSON}")}
    sums = {path.removesuffix(f"/{ZARR_JSON}"): hashlib.sha256(found[path]).hexdigest() for path in sorted(found)}
    document = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {**attributes, CHECKSUMS: sums, ROOT_CHECKSUM: NOT_YET},
    }
    content = json.dumps(document, indent=2, default=_plain).encode()
    sha256 = hashlib.sha256(content).hexdigest()
    before, _, after = content.rpartition(NOT_YET.encode())
    write_file(place, ZARR_JSON, before + sha256.encode() + after)


def root_is_unchanged(content: bytes, attributes: Mapping[str, Any]) -> bool:
    """Whether the root's zarr.json, of which these are the attributes, is as it was written; true where it has no sums.

    Args:
        content: the file.
        attributes: what is in it.
    """
    stated = attributes.get(ROOT_CHECKSUM)
    if stated is None and CHECKSUMS not in attributes:
        return True
    if not isinstance(stated, str) or len(stated) != len(NOT_YET) or not isinstance(attributes.get(CHECKSUMS), dict):
        return False
    before, _, after = content.rpartition(stated.encode())
    return hashlib.sha256(before + NOT_YET.encode() + after).hexdigest() == stated


def groups_of(arrays: Iterable[str]) -> set[str]:
    """The paths of all groups that lie between the root and arrays."""
    found = set()
    for path in arrays:
        found |= set(itertools.accumulate(path.split("/")[:-1], "{}/{}".format))
    return found


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be an attribute")
