"""The order of rows inside a part, for locality of memory access."""
