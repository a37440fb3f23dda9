"""A user's own files: node tables, edge files and schemas become a `RawGraph`."""
