"""Graphs too big for one GPU, prepared for the machine they will be trained on."""

__version__ = "0.1.0"
