"""How many rows of other ranks are kept: a share, or bytes."""

from __future__ import annotations

import pytest

from trainer.base.errors import OptionError
from trainer.config.option_conflicts import check_together
from trainer.config.options import Options
from trainer.config.row_cache import kept_rows, kept_share


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("0", [0, 0]),
        ("0.25", [25, 5]),
        ("1", [100, 20]),
        ("2KB", [50, 10]),
        ("0.002 mb", [50, 10]),
        ("2000B", [50, 10]),
        ("1GB", [100, 20]),
    ],
)
def test_rows_of_each_type(text: str, rows: list[int]) -> None:
    """Guards against bytes that are counted as rows, and more rows than there are. All rows are 4,000 bytes."""
    assert kept_rows(text, [100, 20], [32, 40]) == rows


@pytest.mark.parametrize("text", ["", "1.5", "-0.1", "10%", "MB", "nan", "inf", "-1MB"])
def test_what_is_neither(text: str) -> None:
    """Guards against a cache of another size than was meant."""
    with pytest.raises(OptionError, match=r"expected a share from 0 to 1, as 0\.1, or bytes, as 200MB"):
        kept_share(text)


def test_options_that_do_nothing_alone() -> None:
    """Guards against a cache that is requested and not there."""
    with pytest.raises(OptionError, match="--remote-row-cache does nothing without --batch-size"):
        check_together(Options(cache="c", remote_row_cache="0.1"))
    with pytest.raises(OptionError, match="--cache-policy does nothing without --remote-row-cache"):
        check_together(Options(cache="c", batch_size=10, cache_policy="lru"))
