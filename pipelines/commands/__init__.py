"""Commands that `cli.py` gathers: groups with several of their own, and what looks without making anything."""
