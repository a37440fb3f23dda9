"""Streams of events and their snapshots."""
