"""Training on a stream of events in continuous time: TGN with node memory, and EdgeBank, its baseline."""
