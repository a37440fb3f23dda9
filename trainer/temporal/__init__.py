"""Training on graphs that change: on events (continuous time) and on snapshots (discrete time)."""
