"""Memory of one GPU that the kernels of another read and write."""

from collections.abc import Sequence

import torch


def connect(gpus: Sequence[torch.device]) -> None:
    """Lets every GPU read and write the memory of every other. Raises ValueError naming two that cannot."""
    for one in gpus:
        for other in gpus:
            if one == other:
                continue
            if not torch.cuda.can_device_access_peer(one, other):
                raise ValueError(f"gpus: {one} cannot reach the memory of {other}")
            torch.zeros(1, device=one).to(other)  # torch maps the memory of `other` before its first copy
