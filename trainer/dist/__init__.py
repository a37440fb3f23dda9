"""Processes and the process group: rank, device, rendezvous, collectives."""
