"""The version of the package, of the stores and caches that it writes, and of the command line."""

__version__ = "0.1.0"
