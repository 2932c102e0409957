"""The engine: its size and its graphs, and the passes of a step."""
