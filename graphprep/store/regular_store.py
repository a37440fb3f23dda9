"""A Zarr store in a local folder, of which only regular files are read: a pipe is an error, not an endless wait."""

from __future__ import annotations

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore

from graphprep.system.files.regular_file import regular_file


class RegularFiles(LocalStore):
    """Zarr's store of a local folder.

    Raises:
        NotRegularFileError: in `get`, where a pipe, a socket or a device has the place of a file.
    """

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The content of a file, or None if there is none."""
        try:
            regular_file(self.root / key)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        return await super().get(key, prototype, byte_range)
