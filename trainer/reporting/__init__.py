"""What a run prints and the files that it leaves for people and other programs."""
