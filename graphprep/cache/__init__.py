"""An assignment becomes a partition cache: raw arrays that any rank maps into memory (docs/cache-format.md)."""
