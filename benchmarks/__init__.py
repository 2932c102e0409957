"""Measured results, and the command that writes their tables into the documents: `python -m benchmarks.figures`."""
