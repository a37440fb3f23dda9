"""Files: written whole or not at all, refused where they are not what they should be, read without copies."""
