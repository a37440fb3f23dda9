"""What any program needs and nothing about graphs: processes, threads, memory, progress, files."""
