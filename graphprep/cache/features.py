"""What a person asks to be done to node features on their way from the store into a cache; `feature_rows` does it.

Scaling comes before the change of type, and sums over neighbours are of the result. Scaled rows are those that
bag-of-words sets are used with; a constant column becomes 0. With `features` none and `aggregate_features` gcn, GCN's
sums are in the cache alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphprep.errors import UsageError
from graphprep.system.options import check_options, option

if TYPE_CHECKING:
    import numpy as np

    from graphprep.core.source import GraphSource

TYPES = {"stored": "as they are", "float32": "", "float16": "", "bfloat16": "", "none": "leaves them out"}
SCALES = {
    "none": "",
    "rows": "each row is divided by the sum of its absolute values",
    "columns": "each column gets mean 0 and deviation 1 over all nodes of the type",
}
AGGREGATES = {"none": "", "gcn": "for GCN", "mean": "for GraphSAGE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureOptions:
    """What a person asks for."""

    features: str = option("stored", "The type of features in the cache.", choices=TYPES)
    scale_features: str = option("none", "How features are scaled.", choices=SCALES)
    aggregate_features: str = option(
        "none", "Sum the neighbours' features beforehand, for the first layer of a model.", choices=AGGREGATES
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.aggregate_features == "mean" and self.features == "none":
            raise UsageError(
                "--aggregate-features mean is for GraphSAGE, which needs a node's own features too; "
                "leave --features none away"
            )

    def require_aggregatable(self, source: GraphSource) -> None:
        """Refuse sums over the neighbours of a graph for which they mean nothing.

        Raises:
            UsageError: there are several node or edge types, or no features.
        """
        if self.aggregate_features == "none":
            return
        from graphprep.cache.format import X_AGGREGATED

        if len(source.num_nodes) != 1 or len(source.num_edges) != 1:
            raise UsageError(
                f"--aggregate-features {self.aggregate_features} is for graphs of one node type and one edge type, and "
                f"{source.name} has {len(source.num_nodes)} and {len(source.num_edges)}; leave it away"
            )
        [node_type] = source.num_nodes
        if not {"x", X_AGGREGATED} & set(source.node_arrays(node_type)):
            raise UsageError(
                f"--aggregate-features {self.aggregate_features} sums features, and {source.name} has none; "
                "leave it away"
            )

    def dtype(self, stored: np.dtype[Any]) -> np.dtype[Any]:
        """Of the cache's features; whole numbers that are scaled become float32."""
        from graphprep.cache.feature_rows import NAMED

        if self.features in NAMED:
            return NAMED[self.features]
        if self.scale_features != "none" and stored.kind != "f":
            return NAMED["float32"]
        return stored

    @property
    def dtype_of_sums(self) -> np.dtype[Any]:
        """The dtype of sums over neighbours: the requested one, else float32."""
        from graphprep.cache.feature_rows import NAMED

        return NAMED.get(self.features, NAMED["float32"])
