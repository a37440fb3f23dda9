"""Tests of what `import graphprep` offers."""
