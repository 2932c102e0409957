"""A variant is ours when its kernels are: every name that it does not declare is somebody else's."""

import json
import re
from pathlib import Path

import pytest
import torch
from triton import JITFunction

from kernels import registry
from kernels.cases import check_cases
from kernels.hardware import GPUS
from kernels.megakernel.host.device import SOURCES
from kernels.model import all_reduce, experts_triton
from kernels.proof.kernel_names import borrowed_kernels_sentence, foreign, is_own, kernels_seen
from tests.kernels.cuda_sources import own_headers
from tests.kernels.proof import interpreted_names

OWN = {item.name: item for item in registry.variants() if not item.peer}
SINGLE = sorted(name for name, each in OWN.items() if each.op != "model")
WHOLE = sorted(OWN.keys() - set(SINGLE))
RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
OTHERS = {
    "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT": "cuBLAS",
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x128_8x4_tn_align1>": "cuBLAS",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_tn_align8>": "cuBLAS",
    "void cublasLt::splitKreduce_kernel<32, 16, int>": "cuBLAS",
    "void gemv2T_kernel_val<int, int, __nv_bfloat16>": "cuBLAS",
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int>>>": "CUTLASS",
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x64x64": "cuDNN",
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits>": "FlashAttention",
    "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::Collective>>>": "FlashAttention",
    "void flashinfer::BatchDecodeWithPagedKVCacheKernel<128, 2, 8>": "FlashInfer",
    "void marlin::Marlin<256, 4, 16, 4>": "Marlin",
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80": "torch's memory-efficient attention",
    "triton_poi_fused_add_mul_silu_3": "Inductor",
    "triton_red_fused__to_copy_mean_0": "Inductor",
    "triton_tem_fused_mm_7": "Inductor",
    "void at_cuda_detail::cub::DeviceScanKernel<int>": "torch",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>": "torch",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, true>": "torch",
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::silu_kernel>>": "torch",
    "_anybodys_triton_kernel": "",
    "my_gemm": "",
    "gemm2": "",
    "decode_hopper_v2": "",
}
"""Kernels that no variant declares, and whose they are said to be; "" where nothing is known of them."""
HELPERS = [
    "void at::native::vectorized_elementwise_kernel<2, at::native::FillFunctor<long>, std::array<char*, 1ul> >(int)",
    "void at::native::vectorized_elementwise_kernel<2, at::native::CUDAFunctorOnSelf_add<long>, std::array<char*, 2> >",
    "void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::BFloat16, long, unsigned int, 2, 2, -2>()",
    "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)",
]
"""Kernels of torch that whole models run, and single variants must not."""


@pytest.mark.parametrize("name", sorted(OWN))
def test_every_kernel_that_a_variant_does_not_declare_is_anothers(name):
    """But that whole models run torch's helpers beside their own."""
    variant = OWN[name]
    own = sorted(variant.own_kernels())
    assert own
    assert foreign(own, variant) == borrowed_kernels_sentence(own, variant) == ""
    for other, owner in OTHERS.items():
        assert foreign([*own, other], variant) == other
        assert is_own([*own, other], variant) is False
        text = f"one of {owner}" if owner else "one that it does not declare"
        assert (
            borrowed_kernels_sentence([*own, other], variant)
            == f"It claims kernels of its own, but runs {text}: {other[:80]}."
        )
    for helper in HELPERS:
        assert is_own([*variant.own_kernels(), helper], variant) == (variant.op == "model"), helper


def test_a_whole_model_may_run_every_kernel_of_the_library_and_the_megakernel():
    declared = {kernel for value in OWN.values() for kernel in value.kernels}
    assert all(OWN[name].own_kernels() == declared for name in WHOLE)


def test_the_names_of_operators_on_a_cpu_tell_nothing():
    x = torch.randn(8, 8)
    names = kernels_seen(lambda: x @ x, "cpu")
    assert "aten::mm" in names
    assert is_own(names, OWN["skinny"]) is None
    assert is_own([*names, "detach_"], OWN["skinny"]) is None
    assert is_own([], OWN["skinny"]) is None
    assert borrowed_kernels_sentence(names, OWN["skinny"]) == ""


def entries(source: Path) -> set[str]:
    """The names of a CUDA source's kernels."""
    text = "".join(path.read_text() for path in (source, *own_headers(source)))
    heads = (part.split("{")[0] for part in text.split('extern "C" __global__')[1:])
    return {re.findall(r"\b([a-z]\w*)\(", head)[0] for head in heads}


def sources(name: str) -> set[Path]:
    """The CUDA sources that a variant compiles on any GPU, over the cases that are checked."""
    variant = OWN[name]
    if variant.op == "model":
        return {SOURCES / "decode.cu", all_reduce.SOURCE} if variant.runner_name == "megakernel" else set()
    return {
        build.source
        for case in check_cases(variant.op, False)
        for gpu in GPUS.values()
        if variant.serves(case, gpu) is None
        for params in variant.space(case)
        for build in variant.cuda_builds(case, params, gpu)
    }


def test_the_declared_names_are_those_in_the_sources():
    of_cuda = {name: {entry for source in sources(name) for entry in entries(source)} for name in OWN}
    assert tuple(name for name in SINGLE if not of_cuda[name]) == interpreted_names.NAMES, "these are in Triton"
    of_cuda["kernels"] = {name for name, each in vars(experts_triton).items() if isinstance(each, JITFunction)}
    declared = {name: set(each.kernels) for name, each in OWN.items() if name not in interpreted_names.NAMES}
    assert {name: names for name, names in of_cuda.items() if name in declared} == declared


def rows():
    """Every row of a committed bench document that says whether the kernels are the variant's own."""
    for path in sorted(RESULTS.rglob("*.json")):
        document = json.loads(path.read_text())
        for row in document.get("rows", []) if isinstance(document, dict) else []:
            if isinstance(row, dict) and row.get("own") is not None:
                yield path.name, row


def test_committed_rows_are_judged_as_they_were_by_their_kernels():
    judged = 0
    for document, row in rows():
        result = is_own(row["kernels"], registry.variant(row["variant"]))
        judged += 1
        assert result is row["own"], (
            document,
            row["variant"],
            foreign(row["kernels"], registry.variant(row["variant"])),
        )
    assert judged > 600
