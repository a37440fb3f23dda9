"""Runs of the trainer: started, chosen by a plan, rebalanced and rescaled while they run; inference."""
