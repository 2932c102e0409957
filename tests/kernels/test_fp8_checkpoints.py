"""Checkpoints in fp8 with a scale for each tensor or row: what the compact decoder holds of them is what they hold."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from kernels import registry, runners
from kernels.dequantising.convert import convert
from kernels.gemm.skinny import config_of
from kernels.gemm.skinny_pack import pack_fp8
from kernels.model import tensor_parallel
from kernels.model.decoder import Decoder
from kernels.model.layer_ops import BatchShape
from kernels.model_files import ModelRefused, files_at, inspect
from kernels.model_files.families import stored_rows
from kernels.model_files.quantised import scheme_of
from kernels.model_files.stored_weights import KV_SCALES
from kernels.model_files.tensors import INDEX
from kernels.ops import LinearCase, LmHeadCase
from kernels.quant.quantised_matrix import fp8_rows
from kernels.runners import defaults
from kernels.server.execution.packed import PagedState
from tests.kernels.quantised_formats import compressed
from tests.kernels.test_quantised_checkpoints import CONFIG, shapes

CHANNEL = compressed(8, "float", strategy="channel")
DYNAMIC = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}
CHANNEL["config_groups"]["group_0"]["input_activations"] = DYNAMIC
BLOCKS = {"quant_method": "fp8", "weight_block_size": [32, 32], "activation_scheme": "dynamic"}
Tensors = dict[str, torch.Tensor]


def drawn(folder: Path, given: dict[str, Any], left: tuple[str, ...] = ("lm_head",), **config: Any) -> Tensors:
    """Writes a checkpoint in two shards, codes in one and scales in the other; `left` stays in bf16. A weight has one
    scale, in CHANNEL one for each row. The tensors are returned.
    """
    chance, tensors = torch.Generator().manual_seed(11), {}
    for name, shape in shapes(CONFIG | config):
        module = name.removesuffix(".weight")
        if len(shape) == 1 or "embed" in name or module.endswith(left):
            tensors[name] = (torch.randn(shape, generator=chance) * 0.3).bfloat16()
            continue
        rows = (shape[0], 1) if given is CHANNEL else ()
        scale = torch.rand(rows, generator=chance) * 1e-3 + 1e-4
        tensors[f"{module}.weight_scale"] = scale
        tensors[name] = (torch.randn(shape, generator=chance) * 100).clamp(-448, 448).to(torch.float8_e4m3fn)
    folder.mkdir(exist_ok=True)
    scales = {name: tensor for name, tensor in tensors.items() if name.endswith("scale")}
    shards = {
        "model-1.safetensors": {n: t for n, t in tensors.items() if n not in scales},
        "model-2.safetensors": scales,
    }
    for file, part in shards.items():
        save_file(part, folder / file)
    places = {name: file for file, part in shards.items() for name in part}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    (folder / "config.json").write_text(json.dumps(CONFIG | config | {"quantization_config": given}))
    return tensors


def loaded(folder: Path, into: Path) -> Any:
    """The transformers model of the dequantised checkpoint."""
    into.mkdir()
    convert(files_at(folder), into)
    return runners.load(into, inspect(into).config, dtype="bf16", device="cpu")


MODELOPT = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": None}


@pytest.mark.parametrize(
    "given", [CHANNEL, MODELOPT, {"quant_method": "fbgemm_fp8"}], ids=["channel", "tensor", "fbgemm"]
)
@pytest.mark.parametrize("tied", [False, True])
def test_joined_matrices_have_the_bytes_of_their_parts_and_a_scale_for_each_row(
    tmp_path: Path, given: dict[str, Any], tied: bool
) -> None:
    """q, k and v have different scales. The sizes are no multiples of what a kernel reads at once."""
    sizes = {"hidden_size": 72, "intermediate_size": 40, "num_hidden_layers": 2, "tie_word_embeddings": tied}
    tensors = drawn(tmp_path / "source", given, **sizes)
    model = loaded(tmp_path / "source", tmp_path / "plain")
    compact = Decoder(model, pack=True)
    for number, layer in enumerate(compact.layers):
        joined = {
            "self_attn": ((layer.qkv[0], ("q", "k", "v")), (layer.o, ("o",))),
            "mlp": ((layer.dense.gate_up[0], ("gate", "up")), (layer.dense.down, ("down",))),
        }
        for place, matrices in joined.items():
            for matrix, parts in matrices:
                names = [f"model.layers.{number}.{place}.{part}_proj" for part in parts]
                codes = torch.cat([tensors[f"{name}.weight"].view(torch.uint8) for name in names])
                scales = [tensors[f"{name}.weight_scale"].reshape(-1) for name in names]
                rows = [len(tensors[f"{name}.weight"]) for name in names]
                own = fp8_rows(matrix)
                assert torch.equal(own.codes, codes)
                assert torch.equal(own.row_scales, torch.cat([s.expand(n) for s, n in zip(scales, rows, strict=True)]))
    head = tensors["model.embed_tokens.weight" if tied else "lm_head.weight"]
    assert torch.equal(compact.lm_head, head)
    assert stored_rows(model.config.to_dict()) == "fp8"


def test_the_products_of_few_rows_hold_the_codes_with_scales_that_are_no_powers_of_two(tmp_path: Path) -> None:
    tensors = drawn(tmp_path / "source", CHANNEL)
    o = Decoder(loaded(tmp_path / "source", tmp_path / "plain"), pack=True).layers[0].o
    name = "model.layers.0.self_attn.o_proj"
    exact = tensors[f"{name}.weight"].float() * tensors[f"{name}.weight_scale"]
    case = LinearCase(m=3, n=len(o), k=o.shape[1], weights="fp8")
    variant = registry.variant("skinny_fp8")
    assert torch.equal(variant.rounded(case, {}, {"w": o})["w"], exact)
    stream, scales = variant.pack(case, {}, o)
    assert torch.equal(scales[: len(o)], tensors[f"{name}.weight_scale"][:, 0])
    assert not scales[len(o) :].any()
    assert torch.equal(stream, pack_fp8(tensors[f"{name}.weight"], config_of(case, {})))


def test_ops_in_fp8_are_offered_where_the_codes_stay_as_they_are(tmp_path: Path, monkeypatch: Any) -> None:
    """Not for products that a norm's weights are folded into, nor for the LM head; one matrix in 16 bits, for all."""
    offered: list[Any] = []
    monkeypatch.setattr(defaults._Finder, "option", lambda _, case: offered.append(case))
    for left in (("lm_head",), ("lm_head", "up_proj")):
        drawn(tmp_path / left[-1], MODELOPT, left=left)
        model = Decoder(loaded(tmp_path / left[-1], tmp_path / f"{left[-1]} plain"))
        offered.clear()
        defaults.default_ops(model, BatchShape(1, 8, 4), "fp8")
        fp8 = [case for case in offered if getattr(case, "weights", "") == "fp8"]
        epilogues = {case.epilogue for case in fp8 if isinstance(case, LinearCase)}
        apart = {"none", "residual", "swiglu"}
        assert epilogues == apart if len(left) == 1 else epilogues > apart
        assert any(isinstance(case, LmHeadCase) for case in fp8) == (len(left) > 1)


@pytest.mark.parametrize(
    ("given", "field"),
    [(CHANNEL, "ignore"), (MODELOPT, "exclude_modules"), ({"quant_method": "fbgemm_fp8"}, "modules_to_not_convert")],
)
def test_a_module_of_a_layer_in_16_bits_is_none_stored_by_rows(given: dict[str, Any], field: str) -> None:
    def stored(modules: object) -> str:
        return stored_rows({"model_type": "llama", "dequantised_from": given | {field: modules}})

    for modules in (None, [], "lm_head", ["lm_head", "model.embed_tokens", "re:.*norm"], ["re:.*lm_head$"]):
        assert stored(modules) == "fp8", modules
    for module in ("model.layers.0.self_attn*", "re:.*lm_head|re:.*down_proj", "re:.*"):
        assert stored(["lm_head", module]) == "", module
    with pytest.raises(ModelRefused, match="must be a list of names"):
        scheme_of({"quantization_config": given | {field: 5}})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("given", [CHANNEL, MODELOPT], ids=["channel", "tensor"])
def test_scales_that_are_no_numbers_are_refused(tmp_path: Path, given: dict[str, Any], value: float) -> None:
    drawn(tmp_path / "source", given)
    path = tmp_path / "source" / "model-2.safetensors"
    tensors = load_file(path)
    tensors["model.layers.0.mlp.up_proj.weight_scale"].view(-1)[-1] = value
    save_file(tensors, path)
    with pytest.raises(ModelRefused, match="the weights are not all numbers"):
        loaded(tmp_path / "source", tmp_path / "plain")


def with_kv_scales(folder: Path, scales: Tensors) -> None:
    """Adds tensors to the second shard of a checkpoint."""
    path = folder / "model-2.safetensors"
    save_file(load_file(path) | scales, path)
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"] |= dict.fromkeys(scales, path.name)
    (folder / INDEX).write_text(json.dumps(index))


@pytest.mark.parametrize("module", ["", "{}_proj."], ids=["compressed-tensors", "ModelOpt"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_scales_of_keys_and_values_reach_each_layer(tmp_path: Path, module: str, ranks: int) -> None:
    """One number of keys, and one for each head of values; a layer without them has none."""
    drawn(tmp_path / "source", CHANNEL, num_hidden_layers=3, num_key_value_heads=2)
    k, v, both = torch.tensor(0.25), torch.tensor([0.5, 0.125]), torch.tensor([2.0])
    attention = [f"model.layers.{layer}.self_attn" for layer in range(2)]
    with_kv_scales(
        tmp_path / "source",
        {
            f"{attention[0]}.{module.format('k')}k_scale": k,
            f"{attention[0]}.{module.format('v')}v_scale": v,
            f"{attention[1]}.kv_scale": both,
        },
    )
    assert any("used by a server with KV pages in fp8 alone" in note for note in inspect(tmp_path / "source").notes)
    model = loaded(tmp_path / "source", tmp_path / "plain")
    shards = [model]
    if ranks > 1:
        devices = [torch.device("cpu")] * ranks
        shards = tensor_parallel.read(tmp_path / "plain", model.config.to_dict(), devices, "bf16").shards
    states = [PagedState(Decoder(shard), 4, 16, 2, 64, "fp8") for shard in shards]
    for name, wanted in (("k_scale", ([0.25, 0.25], [2, 2], [1, 1])), ("v_scale", ([0.5, 0.125], [2, 2], [1, 1]))):
        for layer, each in enumerate(wanted):
            assert torch.cat([state.scales[layer][name] for state in states]).tolist() == each


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_scales_of_keys_that_say_that_there_is_none_are_left_out(tmp_path: Path, scale: float) -> None:
    drawn(tmp_path / "source", CHANNEL, num_key_value_heads=2)
    with_kv_scales(tmp_path / "source", {"model.layers.0.self_attn.k_scale": torch.tensor([scale])})
    loaded(tmp_path / "source", tmp_path / "plain")
    assert not (tmp_path / "plain" / KV_SCALES).exists()


@pytest.mark.parametrize("scale", [[float("nan")], [float("inf")], [1.0, 1.0, 1.0, 1.0]])
def test_scales_of_keys_that_are_no_numbers_are_refused(tmp_path: Path, scale: list[float]) -> None:
    drawn(tmp_path / "source", CHANNEL, num_key_value_heads=2)
    with_kv_scales(tmp_path / "source", {"model.layers.0.self_attn.k_scale": torch.tensor(scale)})
    with pytest.raises(ModelRefused, match="a number, or one for each of the 2 heads"):
        loaded(tmp_path / "source", tmp_path / "plain")
