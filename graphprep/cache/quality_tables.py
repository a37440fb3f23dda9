"""The quality figures of a cache: by name as JSON has them, and as pandas tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphprep.system.packages import required

if TYPE_CHECKING:
    import pandas as pd

Matrix = NDArray[np.int64]


class QualityTables(dict[str, Any]):
    """`figures["cut_edges"]` is a number, `figures["links"]` a list of rows, `figures.links` the same as a table."""

    def __init__(self, figures: Mapping[str, Any], pairs: Callable[[], tuple[Matrix, Matrix]]) -> None:
        """
        Args:
            figures: by the names of the format's page.
            pairs: reads `traffic_rows` and `cross_edges`, int64 [P, P].
        """
        super().__init__(figures)
        self._pairs = pairs

    @property
    def links(self) -> pd.DataFrame:
        """One row a link direction."""
        return self._table("links")

    @property
    def link_types(self) -> pd.DataFrame:
        """One row a type of link."""
        return self._table("link_types")

    @property
    def ranks(self) -> pd.DataFrame:
        """One row a rank: nodes, edges, training nodes, halo rows, work."""
        return self._table("ranks")

    @property
    def limits(self) -> pd.DataFrame:
        """One row a limit, and whether it is met."""
        return self._table("limits")

    @property
    def pairs(self) -> pd.DataFrame:
        """One row an ordered pair of ranks: the distinct rows and the edges that cross from one to the other."""
        rows_PP, edges_PP = self._pairs()
        source, destination = np.nonzero(~np.eye(len(rows_PP), dtype=np.bool_))
        columns = {
            "source": source,
            "destination": destination,
            "rows": rows_PP[source, destination],
            "edges": edges_PP[source, destination],
        }
        return required("pandas", "tables of quality").DataFrame(columns)

    def _table(self, name: str) -> pd.DataFrame:
        return required("pandas", "tables of quality").DataFrame(list(self[name]))
