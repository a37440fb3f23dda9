"""Graphs of events, that is edges with times: from files or a generator to an event store, from there to a cache."""
