"""The names and numbers of event stores and event caches; docs/temporal.md says what they mean."""

from __future__ import annotations

EVENT_FORMAT = 1
SHARED_FORMAT = 2
"""of event caches in which several ranks share a group of snapshots; all others keep EVENT_FORMAT"""
EVENT_STORE_KIND = "event-store"
EVENT_CACHE_KIND = "events"

SOURCE, DESTINATION, TIME = "events/source", "events/destination", "events/time"
EVENT_X, EVENT_Y = "events/x", "events/y"
NODE_X = "nodes/x"
CHANGING_OFFSETS, CHANGING_TIME, CHANGING_X = "changing/offsets", "changing/time", "changing/x"
"""features of nodes that change: R rows in the order of nodes and, of each node, of times"""
CHANGING_ARRAYS = (CHANGING_OFFSETS, CHANGING_TIME, CHANGING_X)
ORIGINAL_ID, WORD_OFFSETS, WORD_BYTES = "nodes/original_id", "words/offsets", "words/bytes"
"""the ids that nodes had in the source, where they were not the row numbers: numbers, or words in UTF-8"""
EVENT_ARRAYS = (SOURCE, DESTINATION, TIME, EVENT_X, EVENT_Y)
"""one row an event, in the order of time"""
RANK_OF = "nodes/rank_of"
MEMBER_OF = "nodes/member_of"
"""which of the ranks that share a group of snapshots has a node"""
INDEX_OFFSETS, INDEX_EVENT, INDEX_NEIGHBOUR = "index/offsets", "index/event", "index/neighbour"
SNAPSHOT_OFFSETS, SNAPSHOT_GROUP = "snapshots/offsets", "snapshots/group"
DTYPES = {
    SOURCE: ("int64",),
    DESTINATION: ("int64",),
    TIME: ("int64", "float64"),
    EVENT_X: ("float32",),
    EVENT_Y: ("int64",),
    NODE_X: ("float32",),
    CHANGING_OFFSETS: ("int64",),
    CHANGING_TIME: ("int64", "float64"),
    CHANGING_X: ("float32",),
    ORIGINAL_ID: ("int64",),
    WORD_OFFSETS: ("int64",),
    WORD_BYTES: ("uint8",),
    RANK_OF: ("int16",),
    MEMBER_OF: ("int16",),
    INDEX_OFFSETS: ("int64",),
    INDEX_EVENT: ("int64",),
    INDEX_NEIGHBOUR: ("int64",),
    SNAPSHOT_OFFSETS: ("int64",),
    SNAPSHOT_GROUP: ("int16",),
}
"""Of each array. Features have two dimensions, all others one."""
MATRICES = (EVENT_X, NODE_X, CHANGING_X)

SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86_400.0,
    "w": 604_800.0,
}
"""Units of time, by their length in seconds."""
