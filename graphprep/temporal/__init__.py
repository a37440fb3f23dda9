"""Graphs whose edges have times: event stores, windows, splits, snapshots, and caches for temporal models."""
