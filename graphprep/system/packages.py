"""Packages that only some people need: imported where they are used, and named where they are missing."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from graphprep.errors import UsageError


def required(package: str, what: str) -> Any:
    """The module of that name.

    Raises:
        UsageError: it is not installed, or does not work here.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise UsageError(
            f"{what} need {package.partition('.')[0]}, which cannot be imported ({error}); install it with pip"
        ) from error


@cache
def installed_version(package: str) -> str | None:
    """The version of a package, None where it is not installed; looked up once, in a millisecond or more."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
