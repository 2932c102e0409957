"""Counters in device memory by which the last block or program of a kernel to arrive is found."""

import torch

from kernels.cuda.launch import is_capturing, raw_stream


class ArrivalCounters:
    """Sets of `count` int32 counters, 0 between launches, for one built function and one stream each. All CUDA graphs
    of a function share another set, zeroed before any capture: their replays must not overlap.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._counters: dict[tuple[torch.device, int | None], torch.Tensor] = {}
        if torch.cuda.is_available():
            self._of(torch.device("cuda", torch.cuda.current_device()), None)

    def take(self, name: str, device: torch.device) -> torch.Tensor:
        """The counters of the current stream; `name` is the argument on the device. Raises ValueError under the capture
        of a graph on another device than that of the build.
        """
        if device.type != "cuda":
            return self._of(device, 0)
        if not is_capturing():
            return self._of(device, raw_stream(device.index))
        if (device, None) not in self._counters:
            raise ValueError(f"{name} is on {device}, where this function was not built: a graph cannot capture it")
        return self._counters[device, None]

    def _of(self, device: torch.device, stream: int | None) -> torch.Tensor:
        if (device, stream) not in self._counters:
            self._counters[device, stream] = torch.zeros(self.count, dtype=torch.int32, device=device)
        return self._counters[device, stream]
