"""Partitioning methods behind one interface: METIS, Mt-KaHyPar, KaMinPar, along the topology, and two baselines."""
