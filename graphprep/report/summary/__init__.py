"""The figures of a store and of a cache, as plain JSON values."""
