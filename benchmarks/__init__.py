"""Measured results, and the command that writes their figures into the documents: `python -m benchmarks.figures`."""
