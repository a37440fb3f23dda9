"""What is checked before the first epoch: agreement of all ranks, memory, and the task."""
