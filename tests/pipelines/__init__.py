"""Whole runs from a file."""
