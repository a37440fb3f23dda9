"""Options and arguments of commands: made from dataclasses, and names that a shell completes."""
