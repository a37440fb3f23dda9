"""What training a graph on a machine will take, and the best way to train it (`graphprep plan`)."""
