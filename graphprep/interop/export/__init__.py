"""A partition cache in the files of other tools (docs/export.md): one module a format, behind one small interface."""
