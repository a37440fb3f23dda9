"""Training on graphs that change: on snapshots (discrete time) and on events (continuous time)."""
