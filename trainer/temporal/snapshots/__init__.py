"""Discrete time: recurrent models over the snapshots of windows, a group of consecutive snapshots a rank."""
