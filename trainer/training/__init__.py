"""Epochs, losses, metrics, checkpoints, and the end of training."""
