"""Load from a traffic description: its requests drawn, sent by `kernels.load`, and judged. Only servers use torch."""
