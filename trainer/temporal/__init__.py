"""Training on graphs that change."""
