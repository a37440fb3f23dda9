"""Graph layers over all ranks: aggregation, attention, maxima, normalisation, and their inputs."""
