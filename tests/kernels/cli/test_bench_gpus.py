"""`bench decode --gpus`: which runners are measured on several GPUs, and what each of their cases says."""

from kernels.cli.bench_decode import Options, _wanted
from kernels.hardware import GPUS
from kernels.ops import ModelCase


def test_bench_decode_adds_the_megakernel_on_several_gpus():
    """Beside one GPU's rows; each of two reads half, and no peer is offered on two."""
    case = ModelCase(model="llama-3.2-1b", batch=1, prompt=128, tokens=64, parameters=1000, bytes_per_token=2000)
    alone, both = (_wanted(case, Options(gpus=gpus), GPUS["h200"]) for gpus in ((), (1, 2)))
    more = [(each.name, own.gpus, own.step_bytes) for each, own in both if (each, own) not in alone]
    assert len(both) == len(alone) + 3
    assert more == [("megakernel", 2, 1000), ("megakernel_fp8", 2, 500), ("megakernel_nvfp4", 2, 281.25)]
    assert all(own.gpus is None and "gpus=" not in own.key for _, own in alone)
