"""Accuracies beside published ones and beside PyG's."""
