"""Files to stores, stores to caches, and both read again."""
