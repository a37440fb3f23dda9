"""The options of a run: their values, their command line, their file, and which of them conflict."""
