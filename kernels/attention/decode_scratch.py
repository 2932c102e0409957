"""The memory between the splits of decode attention and their merge."""

import torch

from kernels.cuda.arrivals import ArrivalCounters


class Scratch:
    """The buffers between splits and merge: new parts for each call, and a counter for each pair."""

    def __init__(self, pairs: int, splits: int, rows: int, head_dim: int) -> None:
        self.pairs, self.splits, self.rows, self.head_dim = pairs, splits, rows, head_dim
        self._arrivals = ArrivalCounters(pairs)

    def take(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """parts, sums and arrivals for a call on the device's current stream. Raises as `ArrivalCounters.take`."""
        arrivals = self._arrivals.take("q", device)
        count = self.pairs * self.splits * self.rows if self.splits > 1 else 1
        parts = torch.empty(count * self.head_dim, dtype=torch.float32, device=device)
        return parts, torch.empty(count, dtype=torch.float32, device=device), arrivals
