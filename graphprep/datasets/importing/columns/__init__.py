"""Tables whose columns are named by role in a schema: ids, ends of edges, labels, splits, times, features."""
