"""A graph and a topology become an assignment of nodes to ranks."""
