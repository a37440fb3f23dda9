"""Halo exchange: which rows travel, in which form, when, and the gradients back."""
