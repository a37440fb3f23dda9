"""Sources and destinations that are two kinds of nodes, such as users and items: those of the second kind follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.event_rows import NodesOfEvents
from graphprep.core.types import EdgeType, Ids
from graphprep.datasets.importing.node_ids import FoundIds, NodeIds

USER_TO_ITEM = EdgeType("user", "to", "item")


@dataclass(slots=True, eq=False)
class TwoKinds:
    """The ids of both kinds."""

    sources: NodeIds = field(default_factory=FoundIds)
    destinations: NodeIds = field(default_factory=FoundIds)
    type: EdgeType = USER_TO_ITEM

    def nodes(self) -> NodesOfEvents:
        """All nodes; after all ids have been taken in."""
        num_sources, source_ids = self.sources.close()
        num_destinations, destination_ids = self.destinations.close()
        notes: Mapping[str, Any] = {
            "kinds": {self.type.source: [0, num_sources], self.type.destination: [num_sources, num_destinations]}
        }
        original = None
        if source_ids is not None or destination_ids is not None:
            both = [
                np.arange(count) if ids is None else ids
                for count, ids in ((num_sources, source_ids), (num_destinations, destination_ids))
            ]
            if any(ids.dtype.kind in "UT" for ids in both):
                both = [np.array([str(one) for one in ids], np.dtypes.StringDType()) for ids in both]
            original = np.concatenate(both)

        def behind_sources(numbers: Ids) -> Ids:
            rows: NDArray[np.int64] = self.destinations.rows(numbers).astype(np.int64) + num_sources
            return rows

        return NodesOfEvents(
            num_nodes=num_sources + num_destinations,
            sources=self.sources.rows,
            destinations=behind_sources,
            original_id=original,
            notes=notes,
        )
