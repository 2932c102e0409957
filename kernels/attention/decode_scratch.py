"""The memory between the splits of decode attention and their merge."""

import torch

from kernels.cuda.launch import is_capturing, raw_stream


class Scratch:
    """The buffers between splits and merge: new parts for each call, and counters that return to zero.

    A set of counters belongs to one built function and one stream, whose calls run in order. All CUDA graphs of one
    function share another set, zeroed before any capture: their replays must not overlap.
    """

    def __init__(self, pairs: int, splits: int, rows: int, head_dim: int) -> None:
        self.pairs, self.splits, self.rows, self.head_dim = pairs, splits, rows, head_dim
        self._arrivals: dict[tuple[torch.device, int | None], torch.Tensor] = {}
        if torch.cuda.is_available():
            self._counters(torch.device("cuda", torch.cuda.current_device()), None)

    def take(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """parts, sums and arrivals for one call on the device's current stream. Raises ValueError under the capture of
        a graph on another device than the one that was current when the function was built.
        """
        stream: int | None = 0
        if device.type == "cuda":
            capturing = is_capturing()
            stream = None if capturing else raw_stream(device.index)
            if capturing and (device, stream) not in self._arrivals:
                raise ValueError(f"q is on {device}, where this function was not built: a graph cannot capture it")
        count = self.pairs * self.splits * self.rows if self.splits > 1 else 1
        parts = torch.empty(count * self.head_dim, dtype=torch.float32, device=device)
        return parts, torch.empty(count, dtype=torch.float32, device=device), self._counters(device, stream)

    def _counters(self, device: torch.device, stream: int | None) -> torch.Tensor:
        if (device, stream) not in self._arrivals:
            self._arrivals[device, stream] = torch.zeros(self.pairs, dtype=torch.int32, device=device)
        return self._arrivals[device, stream]
