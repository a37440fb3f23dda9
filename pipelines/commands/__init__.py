"""The commands of `graphprep`, one module a command or a group of them; `cli.py` imports each when it is asked for."""
