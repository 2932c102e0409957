"""The small product's tile configs, refusals and source; on a GPU the gate, PDL chains and bad values."""

import re

import pytest
import torch

from kernels import registry
from kernels.cuda.occupancy import H200_CLUSTERS
from kernels.gemm.small import CONFIG_PARAMS
from kernels.gemm.small_call import SOURCE, macros
from kernels.gemm.small_pack import pack_fp8
from kernels.gemm.small_tiles import PACKED_BYTES, configs
from kernels.hardware import GPUS
from kernels.ops import LinearCase
from kernels.proof import gate, inputs
from kernels.quant.quantised_matrix import STORED_ROWS, QuantisedMatrix, fp8_rows, int8_groups
from tests.kernels.compiling import compile_log, resources, sass
from tests.kernels.gemm.pdl_chain import assert_same_bits

SHAPES = [(2048, 2048), (16_384, 2048), (2048, 8192), (1536, 8960), (28_672, 4096), (104, 64), (8, 8)]


@pytest.mark.parametrize(
    ("m", "epilogue"), [(9, "none"), (33, "rmsnorm_scale_swiglu"), (129, "none"), (256, "rmsnorm_scale_swiglu")]
)
def test_cuts_cover_the_product_and_fit(m, epilogue):
    for n, k in SHAPES:
        case = LinearCase(m=m, n=n, k=k, epilogue=epilogue)
        result = configs(case)
        assert result
        for config in result:
            outputs = config.rows // (2 if case.gates else 1)
            assert config.x_rows * config.tokens >= m
            assert config.blocks // (config.tokens * config.splits) * outputs >= n
            assert config.splits <= -(-k // 64)
            assert config.columns % 8 == 0
            assert max(config.rows, config.columns) <= 256
            assert config.stages * config.stage_bytes <= config.shared_bytes <= 232_448 - 4096
            assert config.sums_bytes <= config.shared_bytes
            assert config.shared_bytes + config.beside_bytes <= 232_448
            if config.splits > 1 and not config.sums_alias_ring:
                assert config.groups * config.rows_of_block * 1024 <= config.stages * config.stage_bytes
            assert config.threads <= 640


def test_a_cut_keeps_one_wave_where_it_can():
    """128 blocks in clusters of 4 do not fit on 132 SMs at once: fewer and larger ones do."""
    best = configs(LinearCase(m=128, n=4096, k=4096))[0]
    assert best.blocks <= 132
    assert best.clusters <= H200_CLUSTERS[best.splits]


def test_fp8_packs_the_codes_and_scales_that_a_weight_was_stored_with():
    """Gate and up in turns, 8 rows each; what is multiplied is not rounded."""
    variant, case = registry.variant("small_gemm_fp8"), LinearCase(m=32, n=12, k=96, weights="fp8", epilogue="swiglu")
    chance = torch.Generator().manual_seed(4)
    codes = (torch.randn(24, 96, generator=chance) * 100).clamp(-448, 448).to(torch.float8_e4m3fn)
    scales = torch.rand(24, generator=chance) + 1e-3
    weight = (codes.float() * scales[:, None]).bfloat16()
    assert not torch.equal(fp8_rows(weight).row_scales, scales)
    setattr(weight, STORED_ROWS, scales)
    assert torch.equal(variant.rounded(case, {}, {"w": weight})["w"], codes.float() * scales[:, None])
    rows = torch.tensor([*range(8), *range(12, 20), *range(8, 12), *[24] * 4, *range(20, 24), *[24] * 4])
    whole = torch.nn.functional.pad(codes.view(torch.uint8), (0, 0, 0, 1))
    assert torch.equal(
        variant.pack(case, {}, weight),
        pack_fp8(QuantisedMatrix(whole[rows], torch.nn.functional.pad(scales, (0, 1))[rows])),
    )


def test_int8_takes_bf16_and_rounds_as_a_prompt_does():
    variant, case = registry.variant("small_gemm_int8"), LinearCase(m=32, n=40, k=96, weights="int8", epilogue="swiglu")
    assert variant.serves(case, GPUS["h200"]) is None
    weight = torch.randn(80, 96, generator=torch.Generator().manual_seed(4)).bfloat16()
    assert torch.equal(variant.rounded(case, {}, {"w": weight})["w"], int8_groups(weight).values().float())
    assert variant.pack(case, {}, weight).shape == (configs(case)[0].row_tiles, 2, PACKED_BYTES)
    assert not any(config.wide for config in configs(case))


def test_a_wrong_argument_is_named():
    case, variant = LinearCase(m=32, n=64, k=64), registry.variant("small_gemm")
    with pytest.raises(ValueError, match="x is on cpu"):
        variant.build(case, {})(torch.zeros(32, 64, dtype=torch.bfloat16), torch.zeros(64, 64, dtype=torch.bfloat16))


@pytest.mark.parametrize(
    ("m", "dtype", "epilogue"),
    [
        (32, "bf16", "rmsnorm_scale_bias"), (128, "fp16", "rmsnorm_scale_swiglu"), (192, "bf16", "residual"),
        (256, "bf16", "rmsnorm_scale_bias"), (64, "int8", "swiglu"), (256, "int8", "residual"), (64, "fp8", "swiglu"),
        (256, "fp8", "residual"),
    ],
)  # fmt: skip
def test_nothing_is_spilled_and_products_run_on(m, dtype, epilogue):
    activations = dtype if dtype == "fp16" else "bf16"
    case = LinearCase(m=m, n=2048, k=2048, dtype=activations, weights=dtype, epilogue=epilogue)
    config = configs(case)[0]
    log = compile_log(SOURCE, macros(config))
    result = resources(log)
    assert (result.stack, result.spill_stores, result.spill_loads) == (0, 0, 0)
    assert "serialized" not in log
    assert result.registers * config.threads <= 65_536
    assert f"{config.beside_bytes} bytes smem" in log


@pytest.mark.parametrize(("m", "weights", "epilogue"), [(64, "int8", "swiglu"), (32, "fp8", "none")])
def test_no_operand_in_registers_is_written_while_its_product_runs(m, weights, epilogue):
    """ptxas does not know that `wgmma` reads its first operand until the group has ended."""
    case = LinearCase(m=m, n=2048, k=2048, weights=weights, epilogue=epilogue)
    for config in configs(case)[:2]:
        code = sass(SOURCE, macros(config), "sm_90a")[1]
        running, products = set(), 0
        for name, arguments in re.findall(r"\*/\s+(?:@!?U?P\d+ )?([A-Z][\w.]*) ?(.*?);", code):
            if name.startswith("HGMMA"):
                first = int(re.match(r"R\d+, R(\d+), gdesc", arguments)[1])
                running |= {*range(first, first + 4)}
                products += 1
            elif name.startswith("WARPGROUP.DEPBAR"):
                running = set()
            elif (written := re.match(r"R(\d+)", arguments)) and not name.startswith(("ST", "BAR", "RED")):
                assert int(written[1]) not in running, (name, arguments)
        assert products == 8


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "int8", "fp8"])
@pytest.mark.parametrize(
    ("m", "n", "k", "epilogue"),
    [
        (17, 200, 1000, "none"), (20, 520, 1536, "rmsnorm_scale_bias"), (32, 2056, 2048, "rmsnorm_scale_swiglu"),
        (33, 4104, 328, "bias"), (64, 72, 2048, "residual"), (100, 200, 520, "swiglu"),
        (128, 520, 4096, "rmsnorm_scale"), (190, 200, 1032, "rmsnorm_scale_bias"),
        (256, 200, 1032, "rmsnorm_scale_swiglu"), (9, 8, 8, "none"),
    ],
)  # fmt: skip
def test_every_cut_passes_the_gate(dtype, m, n, k, epilogue):
    name, activations = (f"small_gemm_{dtype}", "bf16") if dtype in ("int8", "fp8") else ("small_gemm", dtype)
    variant = registry.variant(name)
    case = LinearCase(m=m, n=n, k=k, dtype=activations, weights=dtype, epilogue=epilogue)
    for params in [*variant.space(case), {"pdl": True}]:
        report = gate.check(variant, case, "cuda", params)
        assert report.passed, (params, report.sentence)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["skinny_fp8", "small_gemm_fp8"])
@pytest.mark.parametrize(("n", "k", "epilogue"), [(200, 1000, "none"), (2056, 2048, "swiglu"), (72, 4096, "residual")])
def test_scales_of_rows_that_are_no_powers_of_two_are_multiplied_by(name, n, k, epilogue):
    """As a checkpoint in fp8 has them, from 2^-20 to 1: no value of the product is off by more than its rounding."""
    case = LinearCase(m=12, n=n, k=k, weights="fp8", epilogue=epilogue)
    variant, drawn = registry.variant(name), inputs.draw(case, "cuda", 3)
    codes = (drawn["w"].float() * k**0.5 * 100).clamp(-448, 448).to(torch.float8_e4m3fn).float()
    scales = torch.rand(len(codes), device="cuda") * 2.0 ** torch.randint(-20, 0, (len(codes),), device="cuda").float()
    exact = codes.double() * scales.double()[:, None]
    stored = exact.bfloat16()
    setattr(stored, STORED_ROWS, scales)
    drawn["x"] /= 8
    wide = {key: value.double() for key, value in drawn.items()} | {"w": exact}
    y = variant.build(case, {})(**drawn | {"w": variant.pack(case, {}, stored)})
    size = wide["x"].abs() @ exact.abs().T  # what rounding errors of a sum grow with
    bound = size[:, :n] * (1 + size[:, n:]) if case.gates else size
    wanted = case.reference(wide)[0]
    assert ((y.double() - wanted).abs() <= 2.0**-8 * wanted.abs() + 2.0**-11 * bound).all()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize(
    ("m", "n", "k", "epilogue"),
    [
        (256, 1000, 264, "none"), (256, 17_920, 72, "bias"), (150, 1000, 264, "residual"),
        (200, 1000, 1032, "rmsnorm_scale"), (256, 520, 520, "rmsnorm_scale_swiglu"),
    ],
)  # fmt: skip
def test_rows_of_w_across_pass_the_gate(dtype, m, n, k, epilogue):
    case = LinearCase(m=m, n=n, k=k, dtype=dtype, weights=dtype, epilogue=epilogue)
    tried = [{name: getattr(config, name) for name in CONFIG_PARAMS} for config in configs(case) if config.wide]
    assert tried
    for params in [*tried[:3], tried[-1], tried[0] | {"pdl": True}]:
        report = gate.check(registry.variant("small_gemm"), case, "cuda", params)
        assert report.passed, (params, report.sentence)


@pytest.mark.gpu
def test_a_chain_that_overlaps_in_a_graph_gives_the_same_bits():
    case = LinearCase(m=40, n=2048, k=2048, epilogue="residual")
    variant, drawn = registry.variant("small_gemm"), inputs.draw(case, "cuda", 3)
    assert_same_bits(variant, case, drawn["x"], drawn["w"], drawn["residual"])


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["x", "w", "residual"])
def test_a_misaligned_argument_is_named(name):
    case = LinearCase(m=32, n=64, k=64, epilogue="residual")
    drawn = inputs.draw(case, "cuda", 1)
    shifted = torch.zeros(drawn[name].numel() + 1, dtype=torch.bfloat16, device="cuda")[1:].view(drawn[name].shape)
    with pytest.raises(ValueError, match=name):
        registry.variant("small_gemm").build(case, {})(**drawn | {name: shifted})


@pytest.mark.gpu
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_row_with_no_answer_leaves_the_others_alone(value):
    case = LinearCase(m=40, n=64, k=256)
    variant, drawn = registry.variant("small_gemm"), inputs.draw(case, "cuda", 5)
    call = variant.build(case, {})
    before = call(**drawn)
    drawn["x"][7, 9] = value
    after = call(**drawn)
    kept = [row for row in range(40) if row != 7]
    assert torch.equal(after[kept], before[kept])
    assert not torch.isfinite(after[7]).any()
