"""What each GPU holds of a model. Imports without torch."""

from kernels.megakernel.program import Program
from kernels.megakernel.program.weights import ALIGNMENT


def held_bytes(program: Program, capacity: int) -> dict[str, int]:
    """Bytes by what they are for: the larger tensors of the rank that runs the program, with caches of `capacity`
    tokens.

    A rank's matrices are there twice: row by row in bf16 for prompts, and in the order in which the launch streams
    them, which has the rank's rows of the LM head too. The first rank alone uses the LM head that prompts read.
    The codes that a model in lower precision keeps are not counted: about as many bytes as its stream.
    """
    shape, batch = program.shape, program.layout.batch
    layer = shape.hidden * (shape.qkv_rows + shape.heads * shape.head_dim)
    mlp = shape.hidden * (shape.experts + (shape.experts or 1) * 3 * shape.expert_size)
    table = 2 * shape.vocab * shape.hidden
    experts = {"experts of the launch": program.expert_bytes} if shape.experts else {}
    return experts | {
        "matrices for prompts": 2 * shape.layers * (layer + mlp),
        "stream of the launch": int((-(-program.stream_bytes() // ALIGNMENT) * ALIGNMENT).sum()),
        "embedding": table,
        "LM head": 0 if shape.tied else table,
        "keys and values": 2 * 2 * shape.layers * batch * capacity * shape.kv_heads * shape.head_dim,
    }
