"""The word in which a launch that gives up says where. Imports without torch."""

from kernels.megakernel.program.instructions import OP_NAMES


def fault_sentence(word: int, ranks: int = 1) -> str:
    """Which instruction waited too long, on which GPU of several: `give_up` of machine.cuh writes it. "" for 0."""
    if not word:
        return ""
    rank, sm, index, op = word >> 56 & 0x7F, word >> 32 & 0xFFFFFF, word >> 8 & 0xFFFFFF, word & 0xFF
    where = f"GPU {rank}, SM {sm}" if ranks > 1 else f"SM {sm}"
    return f"{where} waited too long at instruction {index} ({OP_NAMES[op]})"
