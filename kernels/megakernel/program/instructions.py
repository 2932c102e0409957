"""What an instruction of the megakernel is: its operation and its fields. Imports without torch."""

FIELDS = (
    "op", "layer", "units", "tile", "k_tile", "k_tiles", "partial", "kv_head", "head", "heads", "split", "index",
    "sequence", "group",
)  # fmt: skip
WORDS = 16
"""The words of an instruction, as `struct Instruction` in parameters.cuh; the rest of its 16 words is unused."""
END, QKV, ATTENTION, OUT, GATE_UP, DOWN, HEAD, ADD, ROUTER = range(9)
OP_NAMES = ("end", "qkv", "attention", "out", "gate_up", "down", "head", "add", "router")
