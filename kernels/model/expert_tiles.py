"""The experts of a mixture as tiles, which the megakernel and `grouped_hopper` both read."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from kernels import registry
from kernels.cuda.current import device_guard
from kernels.cuda.nvrtc import Build
from kernels.dtypes import DTYPE_NAMES
from kernels.gemm.hopper_tiles import interleave_gate_up
from kernels.hardware import Gpu
from kernels.measure.timing import StoppingRule, time_interleaved
from kernels.model.experts import Experts, experts_of, is_sparse, swiglu, torch_grouped
from kernels.model.layer_cases import expert_cases
from kernels.tiles.core_matrices import TILE, core_matrices

if TYPE_CHECKING:
    import torch


CHECKED, ROUNDING = 40, 2**-6
"""Tokens whose products are compared, and how far they may differ, over the largest value."""
TIMED, MAX_SLOWDOWN = (8, 512), 1.05
"""Tokens whose products are timed, and how many times as long as those of rows the ones of tiles may take."""
_OWN: "WeakKeyDictionary[Any, torch.Tensor]" = WeakKeyDictionary()
"""The tiles of each model that has them in the place of its experts."""
_COPIES: "WeakKeyDictionary[Any, ref[torch.Tensor]]" = WeakKeyDictionary()
"""The tiles that some launch has of any other model."""


def tiles_of(model: Any) -> "torch.Tensor":
    """A transformers model's experts as tiles, [layers, experts, values] in its dtype: of each expert the tiles of gate
    and up, 8 rows of the gate and 8 of up in turn, then those of down. They lie in one allocation; all callers share
    them while one of them keeps them. Raises ValueError where they do not fit on the GPU beside the model.
    """
    import torch

    if model in _OWN:
        return _OWN[model]
    known = _COPIES.get(model)
    if known is not None and (shared := known()) is not None:
        return shared
    layers = [experts_of(model.config, layer.mlp) for layer in model.model.layers]
    gate_up, down = layers[0].gate_up, layers[0].down
    if gate_up.is_cuda and (sentence := _no_room(gate_up.device, len(layers) * (gate_up.nbytes + down.nbytes))):
        raise ValueError(sentence)
    size = gate_up[0].numel() + down[0].numel()
    tiles = torch.empty(len(layers), len(gate_up), size, dtype=gate_up.dtype, device=gate_up.device)
    for w, into in zip(layers, tiles, strict=True):
        for part, matrix in zip(_parts(w.down, into), (interleave_units(w), w.down), strict=True):
            part.copy_(core_matrices(matrix.detach()))
    _COPIES[model] = ref(tiles)
    return tiles


def interleave_units(w: Experts) -> "torch.Tensor":
    """Gate and up [experts, 2 · inner, hidden] as 8 rows of the gate and 8 of up in turn."""
    if w.activation == "silu":
        return interleave_gate_up(w.gate_up)
    return w.gate_up.unflatten(1, (-1, 8, 2)).transpose(2, 3).flatten(1, 3)


def can_tile(model: Any, gpu: Gpu) -> bool:
    """Whether a model has experts without biases, of which a product on this GPU reads tiles, and room for these."""
    if not is_sparse(first := model.model.layers[0]) or gpu.sm != 90 or model.dtype.itemsize != 2:
        return False
    if hasattr(experts := first.mlp.experts, "down_proj_bias"):
        return False
    down = experts.down_proj
    if any(size % TILE for size in down.shape[1:]):
        return False
    return not (down.is_cuda and _no_room(down.device, 3 * len(model.model.layers) * down.nbytes))


def tile_experts(*models: Any) -> None:
    """Puts tiles in place of the experts of a model or of all its shards, which only a decoder made afterwards computes
    with. Raises ValueError as `tiles_of`, and where tiles are wrong or slower; rows then stay.
    """
    tiles = [tiles_of(model) for model in models]
    for model, tiles_of_model in zip(models, tiles, strict=True):
        if tiles_of_model.is_cuda:
            with device_guard(tiles_of_model.device):
                check_products(model.config, model.model.layers[0].mlp, tiles_of_model[0])
                check_times(model.config, model.model.layers[0].mlp, tiles_of_model[0])
    for model, tiles_of_model in zip(models, tiles, strict=True):
        _OWN[model] = tiles_of_model
        for layer, of_layer in zip(model.model.layers, tiles_of_model, strict=True):
            experts = layer.mlp.experts
            experts.gate_up_proj.data, experts.down_proj.data = _parts(experts.down_proj, of_layer)


def has_tiles(model: Any) -> bool:
    """Whether tiles are in the place of the model's experts."""
    return model in _OWN


def check_products(config: Any, mlp: Any, tiles: "torch.Tensor") -> None:
    """Raises ValueError where the products of a layer's tiles differ from torch's of its weights by more than rounding,
    for CHECKED tokens whose rows fall evenly to the experts.
    """
    w, tiled = _both(config, mlp, tiles)
    x, offs = _rows_of(w, CHECKED)
    wide, _, narrow = expert_cases(tiled, CHECKED, DTYPE_NAMES[tiles.dtype])
    inner = swiglu(torch_grouped(x, w.gate_up, offs))
    for case, given, operand, expected in (
        (wide, x, tiled.gate_up, inner),
        (narrow, inner, tiled.down, torch_grouped(inner, w.down, offs)),
    ):
        product = registry.variant("grouped_hopper").build(case, {"tiled": True})(given, operand, offs)
        if not (product - expected).abs().max() <= ROUNDING * expected.abs().max():
            raise ValueError(f"the product of tiles differs from torch's: {case.key}")


def check_builds(model: Any, gpu: Gpu) -> Iterator[Build]:
    """What `tile_experts` compiles on this GPU to check the tiles of a model that has none yet."""
    variant, dtype = registry.variant("grouped_hopper"), DTYPE_NAMES[model.dtype]
    for w in _both(model.config, model.model.layers[0].mlp, tiles_of(model)[0]):
        for m in (CHECKED, *TIMED):
            wide, _, narrow = expert_cases(w, m, dtype)
            for case in (wide, narrow):
                yield from variant.cuda_builds(case, _params(w), gpu)


def check_times(config: Any, mlp: Any, tiles: "torch.Tensor") -> None:
    """Raises ValueError where the products of a layer's tiles take more than MAX_SLOWDOWN times as long as those of its
    rows, which leave the activation out, for few or for many tokens that fall evenly to the experts.
    """
    w, tiled = _both(config, mlp, tiles)
    for m in TIMED:
        x, offs = _rows_of(w, m)
        calls = {name: _products(operand, m, x, offs) for name, operand in (("rows", w), ("tiles", tiled))}
        times = time_interleaved(calls, tiles.device, StoppingRule(seconds=0.3))
        if times["tiles"].ms > MAX_SLOWDOWN * times["rows"].ms:
            took = f"{times['tiles'].ms:.3g} ms of tiles, {times['rows'].ms:.3g} of rows"
            raise ValueError(f"the products of a layer for {m} tokens take {took}")


def _both(config: Any, mlp: Any, tiles: "torch.Tensor") -> tuple[Experts, Experts]:
    """A layer's experts as rows and as tiles."""
    w = experts_of(config, mlp)
    gate_up, down = _parts(w.down, tiles)
    return w, w._replace(gate_up=gate_up, down=down)


def _rows_of(w: Experts, m: int) -> "tuple[torch.Tensor, torch.Tensor]":
    """The rows [m · top_k, hidden] of m tokens, normal, and the `offs` by which they fall evenly to the experts."""
    import torch

    (experts, hidden), rows, device = w.router.shape, m * w.top_k, w.router.device
    offs = (torch.arange(1, experts + 1, device=device) * rows // experts).int()
    x = torch.randn(rows, hidden, device=device, generator=torch.Generator(device).manual_seed(1))
    return x.to(w.down.dtype), offs


def _products(w: Experts, m: int, x: "torch.Tensor", offs: "torch.Tensor") -> Callable[[], Any]:
    """A call that computes gate and up, and then down, of as many rows."""
    wide, _, narrow = expert_cases(w, m, DTYPE_NAMES[w.down.dtype])
    gate_up, down = (registry.variant("grouped_hopper").build(case, _params(w)) for case in (wide, narrow))
    inner = x.new_ones(len(x), w.inner)
    return partial(_call, (partial(gate_up, x, w.gate_up, offs), partial(down, inner, w.down, offs)))


def _params(w: Experts) -> dict[str, Any]:
    """The params of `grouped_hopper` for such experts."""
    return {"tiled": True} if w.tiled else {}


def _call(products: tuple[Callable[[], Any], ...]) -> None:
    for product in products:
        product()


def _parts(down: "torch.Tensor", tiles: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
    """A layer's tiles [experts, values] as those of gate and up [experts, 2 · inner / 16, hidden / 16, 256], and of
    down [experts, hidden / 16, inner / 16, 256].
    """
    hidden, inner = down.shape[1:]
    first, second = tiles.split([2 * inner * hidden, inner * hidden], dim=1)
    return (
        first.unflatten(1, (2 * inner // TILE, hidden // TILE, TILE * TILE)),
        second.unflatten(1, (hidden // TILE, inner // TILE, TILE * TILE)),
    )


def _no_room(device: "torch.device", needed: int) -> str:
    """Why so many bytes do not fit on the GPU, in a sentence; "" where they do."""
    import torch

    reserved = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    free = torch.cuda.mem_get_info(device)[0] + reserved
    if needed <= free:
        return ""
    return f"memory: a mixture's experts as tiles take {needed / 1e9:.1f} GB more, and {free / 1e9:.1f} are free"
