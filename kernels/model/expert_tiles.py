"""The experts of a mixture as tiles, which the megakernel and `grouped_hopper` both read."""

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from kernels.gemm.hopper_tiles import interleaved_gate_up
from kernels.hardware import Gpu
from kernels.model.experts import is_sparse
from kernels.tiles.core_matrices import TILE, core_matrices

if TYPE_CHECKING:
    import torch


class ExpertTiles:
    """`layers` are each layer's tiles: of gate and up [experts, 2 · inner / 16, hidden / 16, 256], 8 rows of the gate
    and 8 of up in turn, and of down [experts, hidden / 16, inner / 16, 256].
    """

    def __init__(self, layers: "list[tuple[torch.Tensor, torch.Tensor]]") -> None:
        self.layers = layers

    def addresses(self) -> "torch.Tensor":
        """Where the tiles lie, int64 [layers, 2]."""
        import torch

        rows = [[tiles.data_ptr() for tiles in layer] for layer in self.layers]
        return torch.tensor(rows, dtype=torch.int64, device=self.layers[0][0].device)


_COPIES: "WeakKeyDictionary[Any, ref[ExpertTiles]]" = WeakKeyDictionary()
"""The copy of each model's experts that some launch has."""


def can_tile(model: Any, gpu: Gpu) -> bool:
    """Whether a transformers model has experts whose tiles a product on this GPU reads."""
    if not is_sparse(first := model.model.layers[0]) or gpu.sm != 90 or model.dtype.itemsize != 2:
        return False
    return not any(size % TILE for size in first.mlp.experts.down_proj.shape[1:])


def tile_experts(model: Any) -> None:
    """Rearranges the experts of a transformers model in place, layer by layer. Its own modules cannot compute with
    them; a decoder made of the model afterwards does.
    """
    for layer in model.model.layers:
        own = layer.mlp.experts
        own.gate_up_proj.data, own.down_proj.data = _tiles(own)


def tiles_of(model: Any) -> ExpertTiles:
    """A transformers model's experts as tiles: its own if they were rearranged, else a copy, which all callers share
    while one of them keeps it. Raises ValueError where the copy does not fit on the GPU.
    """
    layers = [layer.mlp.experts for layer in model.model.layers]
    if layers[0].gate_up_proj.dim() == 4:
        return ExpertTiles([(own.gate_up_proj.data, own.down_proj.data) for own in layers])
    known = _COPIES.get(model)
    if known is not None and (shared := known()) is not None:
        return shared
    _check_room(layers)
    made = ExpertTiles([_tiles(own) for own in layers])
    _COPIES[model] = ref(made)
    return made


def _check_room(layers: list[Any]) -> None:
    import torch

    first = layers[0].gate_up_proj
    if not first.is_cuda:
        return
    kept = torch.cuda.memory_reserved(first.device) - torch.cuda.memory_allocated(first.device)
    free = torch.cuda.mem_get_info(first.device)[0] + kept
    needed = len(layers) * (first.nbytes + layers[0].down_proj.nbytes)
    if needed > free:
        memory = f"{needed / 1e9:.1f} GB more, and {free / 1e9:.1f} are free"
        raise ValueError(f"memory: this runner holds a mixture's experts twice, {memory}")


def _tiles(own: Any) -> "tuple[torch.Tensor, torch.Tensor]":
    return core_matrices(interleaved_gate_up(own.gate_up_proj.detach())), core_matrices(own.down_proj.detach())
