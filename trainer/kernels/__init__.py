"""Triton kernels for the products, wires and softmaxes of a rank that computes on a GPU.

Triton is optional: torch's own kernels do the same without it. No module here is imported before
`trainer.kernels.dispatch` has said that Triton serves a tensor.
"""
