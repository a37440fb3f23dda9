"""Stages joined into whole runs: what is up to date is skipped, what was cut short goes on or starts again."""
