"""What is compiled ahead is what runs ask for on a GPU: their code runs here without one, and finds every binary."""

import shutil
import sys
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernels import attention, blackwell, fft, gemm, registry, runners
from kernels.__main__ import main
from kernels.attention import flash_call
from kernels.cases import GROUPS, check_cases
from kernels.cli.builds import model_builds
from kernels.cuda import call, compiler, launch, nvrtc, occupancy
from kernels.cuda.nvrtc import Build
from kernels.hardware import GPUS
from kernels.megakernel.host import device
from kernels.megakernel.host.rank_models import RankModel
from kernels.megakernel.program.layout import Layout, default_layout
from kernels.megakernel.program.ranks import shard_of
from kernels.megakernel.program.shape import shape_of
from kernels.megakernel.proof.structure import ProgramProblem
from kernels.megakernel.proof.validate import InvalidProgram, Proof
from kernels.model import tensor_parallel
from kernels.model.bound_variants import BoundVariants
from kernels.model.decoder import Decoder
from kernels.model.layer_ops import BatchShape, LayerOps
from kernels.model.loading import skeleton
from kernels.model.passes import Pass
from kernels.model.prompt_ops import PACKS_HEAD, prompt_ops
from kernels.model.prompts import room_for
from kernels.model.state import State
from kernels.ops import AttentionCase, Case, LinearCase, LmHeadCase
from kernels.proof import gate, inputs
from kernels.registry import Variant
from kernels.server.execution.backend import KernelsBackend
from kernels.server.execution.compiling import served_builds
from kernels.server.execution.inputs import size, views
from kernels.server.execution.megakernel_backend import capacity_of
from kernels.server.execution.packed import PackedPass
from kernels.server.execution.served_plans import MEGAKERNEL_BATCHES
from kernels.server.execution.server_config import ServerConfig
from kernels.server.execution.sizing import RequestedSize, limits_for
from kernels.tiles import maps
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS
from tests.kernels.runners.engine_models import CONFIGS

CONFIG = GPU_CONFIGS["llama"]
H200 = GPUS["h200"]
TRAFFIC, SERVER = BatchShape(2, 64, 64), RequestedSize(512, 12)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> set[str]:
    """The names of the binaries that were loaded, all of them compiled ahead, as all programs are proven ahead."""
    names: set[str] = set()

    def module(path: str) -> Any:
        names.add(Path(path).name)
        function = SimpleNamespace(kernel=SimpleNamespace(ptr=1), max_dynamic_shared_size_bytes=1 << 20)
        return SimpleNamespace(get_function=lambda entry: function)

    def refused(source: Path, options: Any) -> Any:
        raise AssertionError(f"{source.name} was not compiled ahead: {options}")

    def not_proven(*programs: Any) -> Any:
        raise AssertionError(f"{programs[0].layout} was not proven ahead")

    nothing = SimpleNamespace(cuTensorMapEncodeTiled=lambda *args: 0, cuLaunchKernelEx=lambda *args: 0)
    monkeypatch.setenv(nvrtc.PREBUILT, str(tmp_path))
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(RawModule=module))
    monkeypatch.setattr(compiler, "compile_source", refused)
    monkeypatch.setattr("kernels.megakernel.proof.validate.check_programs", not_proven)
    for module_with in (maps, launch):
        monkeypatch.setattr(module_with, "driver", lambda: nothing)
    monkeypatch.setattr(call, "current_stream", lambda: (0, 0))
    monkeypatch.setattr(call, "is_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    properties = SimpleNamespace(multi_processor_count=H200.sms)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(flash_call.FlashCall, "_table", lambda self, device: torch.zeros(1, H200.sms))
    monkeypatch.setattr("kernels.attention.decode_hopper_call.processors", lambda: H200.sms)
    for name in names_ahead():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return names


@cache
def names_ahead() -> list[str]:
    """The names of what `kernels compile` makes for the model."""
    return [build.name for build in model_builds(CONFIG, H200, [TRAFFIC], [SERVER], ["fp8"], [2])]


PACKED: dict[tuple[str, str], dict[str, Any]] = {}
inputs_of = cache(partial(inputs.draw, device="cpu", seed=1))


def runs(variant: Variant, case: Case, params: dict[str, Any]) -> None:
    """Builds the variant and calls its function, as far as the driver."""
    function: Any = variant.build(case, params)
    drawn = inputs_of(case)
    given = drawn
    if case.packs_weight:
        form = case.key, variant.packing(case, params)
        if form not in PACKED:
            PACKED[form] = gate.pack(variant, case, params, drawn)
        given = PACKED[form]
    if isinstance(case, LinearCase):
        out = torch.empty(case.m, case.n, dtype=torch.bfloat16)
    elif isinstance(case, LmHeadCase):
        out = torch.empty(case.m, dtype=torch.int64)
    elif isinstance(case, AttentionCase):
        out = torch.empty_like(drawn["q"])
        if case.kind == "decode":  # in a pass the length lies on the device
            given = {**given, "position": torch.zeros(1, dtype=torch.int64)}
    else:
        return  # its kernel is loaded when it is built
    function.unchecked(**given, out=out)


def test_every_variant_that_is_tried_finds_its_binary(asked: set[str]) -> None:
    model, tried = Decoder(skeleton(CONFIG, "bf16")), set()
    for case in LayerOps(model, TRAFFIC).cases():
        lower = isinstance(case, LinearCase | LmHeadCase)
        for item in (case, case.model_copy(update={"weights": "fp8"})) if lower else (case,):
            for variant in registry.offers(item, H200)[0]:
                for params in variant.space(item):
                    for more in ({}, *variant.for_model(item)):
                        if variant.cuda_builds(item, {**params, **more}, H200):
                            runs(variant, item, {**params, **more})
                            tried.add(variant.name)
    assert tried >= {"skinny", "skinny_fp8", "small_gemm", "gemm_hopper", "flash_hopper", "decode_hopper"}
    assert tried >= {"step_hopper", "lm_head_skinny", "lm_head_skinny_fp8"}
    assert len(asked) > len(tried)


def test_every_pass_of_a_server_finds_its_binaries(asked: set[str]) -> None:
    loaded = runners.load(None, CONFIG, seed=1, generated=True, dtype="bf16", device="cpu")
    model, shapes = Decoder(loaded), Decoder(skeleton(CONFIG, "bf16"))
    backend = KernelsBackend(model, H200, limits_for(shapes, loaded.config, SERVER))
    pages, met, packed = backend.state.positions // backend.limits.page_size, {}, {}
    for shape, ops, head in backend.passes():
        bound = BoundVariants(ops, H200, packed)
        memory = torch.zeros(size(shape, pages), dtype=torch.uint8)
        PackedPass(model, bound, backend.state, shape, views(memory, shape, pages), head)
        for result in filter(None, bound._found.values()):
            if result.variant.cuda_builds(result.case, result.params, H200):
                met[result.variant.name, result.case, str(result.params)] = result
    for result in met.values():
        runs(result.variant, result.case, result.params)
    assert {name for name, *_ in met} == {"skinny", "lm_head_skinny", "small_gemm", "gemm_hopper", "step_hopper"}
    assert asked


def test_the_servers_megakernels_find_their_binaries(asked: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each as its instance compiles it, up to the packing of its weights."""
    from kernels.server.execution import megakernel_instance

    class Packed(Exception):
        """The kernel is loaded."""

    def pack(*args: Any) -> Any:
        raise Packed

    monkeypatch.setattr("kernels.megakernel.host.machine.pack", pack)
    model: Any = skeleton(CONFIG, "bf16")
    for batch in MEGAKERNEL_BATCHES:
        with pytest.raises(Packed):
            megakernel_instance.MachineInstance(
                model, [RankModel(model, Decoder(model))], batch, capacity_of(SERVER.max_model_len or 0)
            )
    assert len(asked) == len(MEGAKERNEL_BATCHES)
    assert all(name.startswith("decode-") for name in asked)


def test_a_plans_megakernel_finds_its_binary_and_the_one_that_its_profile_takes(asked: set[str]) -> None:
    shape, capacity = shape_of(CONFIG), room_for(TRAFFIC.prompt, TRAFFIC.tokens)
    layout = default_layout(shape, TRAFFIC.batch, capacity, "bf16", H200.sms)
    made = device.build_layout(shape, layout, device.Tuning())
    device.compile_kernel(made.constants)
    device.load(device.traced_build(made.programs[0], device.Tuning()), made.constants)
    assert len([name for name in asked if name.startswith("decode-")]) == 2


def test_a_model_over_two_gpus_finds_its_binaries(asked: set[str]) -> None:
    shard = shard_of(shape_of(CONFIG), 2)
    capacity = room_for(TRAFFIC.prompt, TRAFFIC.tokens)
    for weights in ("bf16", "fp8"):
        layout = default_layout(shard, TRAFFIC.batch, capacity, weights, H200.sms, 2)
        device.compile_kernel(device.build_layout(shard, layout, device.Tuning()).constants)
    assert len([name for name in asked if name.startswith("decode-")]) == 2
    shards = tensor_parallel.generate(CONFIG, [torch.device("cpu")] * 2, "bf16").shards
    for number, made in enumerate(map(Decoder, shards)):
        ops = prompt_ops(LayerOps(made, TRAFFIC), H200, PACKS_HEAD, sharded=True)
        bound, (cos, sin) = BoundVariants(ops, H200), made.rope_table(64)
        token = torch.zeros(TRAFFIC.batch, 1, dtype=torch.int64)
        state = State(TRAFFIC.batch, 64, cos, sin, made.cache(TRAFFIC.batch, 64), token[0], token)
        Pass(made, bound, state, 64, whole=False, rank=number)
        for result in filter(None, bound._found.values()):
            if result.variant.cuda_builds(result.case, result.params, H200):
                runs(result.variant, result.case, result.params)
    assert {name.partition("-")[0] for name in asked} >= {"decode", "skinny", "small"}


def test_every_source_of_a_variant_is_some_variants_build() -> None:
    folders = [Path(str(room.__file__)).parent for room in (attention, blackwell, fft, gemm)]
    result = set()
    for op in GROUPS["library"]:
        for case in check_cases(op, False):
            for gpu in (H200, GPUS["b200"]):
                for variant in registry.offers(case, gpu)[0]:
                    for params in variant.space(case):
                        result |= {cuda_build.source for cuda_build in variant.cuda_builds(case, params, gpu)}
    assert result == {path for folder in folders for path in folder.glob("*.cu")}


def test_a_name_says_what_was_compiled_and_not_where(tmp_path: Path) -> None:
    """A copy of the sources elsewhere has the same names; another macro, architecture or header has another."""
    there = tmp_path / "kernels" / "gemm"
    shutil.copytree(Path(str(gemm.__file__)).parent, there)
    here = Build.of(Path(str(gemm.__file__)).with_name("small.cu"), {"M": 1})
    copy = Build.of(there / "small.cu", {"M": 1})
    assert copy.name == here.name
    others = [Build.of(copy.source, {"M": 2}), Build.of(copy.source, {"M": 1}, "sm_100a")]
    names = {here.name, *(other.name for other in others)}
    (there / "more.cuh").write_text("// more\n")
    assert len({*names, copy.name}) == 4


@pytest.mark.parametrize("size", [1, 2])
def test_a_server_of_a_mixture_asks_for_the_product_of_tiles(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over two GPUs of the tiles of each one's columns."""
    monkeypatch.setattr("kernels.server.execution.compiling.megakernels", lambda *args, **kwargs: [])
    config = CONFIGS["qwen3-moe"] | {"moe_intermediate_size": 48 * size}
    builds = served_builds(config, GPUS["h200"], ServerConfig(RequestedSize(64, 4), tensor_parallel_size=size))
    macros = [dict(build.defines) for build in builds if isinstance(build, Build) and build.source.name == "grouped.cu"]
    of_check = {("kNone", 0)}  # tiles are timed beside rows when they are made
    assert {(macro["EPILOGUE"], macro["TILED"]) for macro in macros} == {("kNone", 1), ("kSwiglu", 1), *of_check}


def test_what_is_there_is_not_made_again(tmp_path, monkeypatch, capsys):
    """Real builds and a proof, some of which are lost. What cannot be proven is said, and leaves no file."""
    proof = Proof(shape_of(CONFIG), Layout(sms=6))
    monkeypatch.setattr("kernels.cli.builds.served_builds", lambda *args: ())
    monkeypatch.setattr("kernels.cli.builds._tuning_builds", lambda *args: ())
    monkeypatch.setattr("kernels.cli.builds._prompts", lambda *args: ())
    monkeypatch.setattr("kernels.cli.builds.megakernels", lambda *args, **kwargs: [(occupancy.EMPTY_BUILD, proof)])
    folder = tmp_path / "made"
    command = ["compile", "--into", str(folder), "--model", "llama-3.2-1b", "--jobs", "1"]
    assert main(command) == 0
    made = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert {name.partition("-")[0] for name in made} == {"empty", "limits", "proof"}
    lost = occupancy.EMPTY_BUILD
    (folder / lost.name).unlink()
    assert main(command) == 0
    assert "3 binaries and proofs, 2 of them there" in capsys.readouterr().out
    assert (folder / lost.name).read_bytes()[:4] == b"\x7fELF"
    assert all((folder / name).stat().st_mtime_ns == when for name, when in made.items() if name != lost.name)
    monkeypatch.setenv(nvrtc.PREBUILT, str(folder))
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "cache"))
    assert lost.binary() == folder / lost.name
    capsys.readouterr()
    other = ["compile", "--into", str(tmp_path / "other"), *command[3:], "--lacking"]
    assert main(other) == 0
    assert "0 binaries and proofs" in capsys.readouterr().out
    (folder / lost.name).unlink()
    assert lost.binary() == tmp_path / "cache" / lost.name

    def broken(*programs: Any) -> Any:
        raise InvalidProgram([ProgramProblem("deadlock", 0, 0, "waits for ever")])

    (folder / proof.name).unlink()
    monkeypatch.setattr("kernels.megakernel.proof.validate.check_programs", broken)
    assert main(command) == 1
    assert "waits for ever" in capsys.readouterr().out
    assert not (folder / proof.name).exists()


@pytest.mark.parametrize(
    ("asked_for", "said"),
    [
        (["--model", "llama-4"], "no catalogue model 'llama-4'"),
        (["--model", "tiny-bert"], "cannot run the model"),
        ([], "name a --model, or --checks"),
    ],
)
def test_what_has_no_builds_gets_a_sentence(asked_for, said, tmp_path, capsys):
    assert main(["compile", "--into", str(tmp_path), *asked_for]) == 2
    assert said in capsys.readouterr().err
