"""Load from a traffic description: its requests drawn, sent by `kernels.load`, and judged. Imports no torch."""
