"""What the whole trainer uses and nothing about graphs: errors, precision, random numbers, files, the traffic log."""
