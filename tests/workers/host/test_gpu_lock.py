"""Workers on one GPU take turns, and know their GPUs from what nvidia-smi says."""

import subprocess
import sys
from pathlib import Path

import pytest

from workers.host import gpu_lock
from workers.host.child_environment import environment_with_gpus
from workers.host.device_memory import gpus_for, memory_gib, parse_memory

LISTED = "0, GPU-aa, 143771\n1, GPU-bb, 81559\n2, GPU-cc, [N/A]\n"
HOLDER = """
import sys, time
from pathlib import Path
from workers.host import gpu_lock
with gpu_lock.hold_locks(["GPU-aa"], lambda: False, Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        (None, {"GPU-aa": 140.4, "GPU-bb": 79.65, "GPU-cc": None}),
        ("0", {"GPU-aa": 140.4}),
        ("GPU-aa,GPU-bb", {"GPU-aa": 140.4, "GPU-bb": 79.65}),
        ("", {}),
    ],
)
def test_a_worker_knows_its_visible_gpus(visible: str | None, found: dict[str, float | None]) -> None:
    assert parse_memory(LISTED, visible) == found
    assert memory_gib(["cpu"], 3 * 2**30) == 3, "on a CPU the limit of a stage counts"


def test_a_class_takes_as_many_gpus_as_it_names_and_several_see_them_alone_without_multicast() -> None:
    for gpu_class, gpus in (("cpu", []), ("h200", ["a", "b", "c"]), ("h200x2", ["a", "b"])):
        assert gpus_for(gpu_class, ["a", "b", "c"]) == gpus
    with pytest.raises(ValueError, match="takes 4 GPUs, and this worker sees 3"):
        gpus_for("h200x4", ["a", "b", "c"])
    outer = {"CUDA_VISIBLE_DEVICES": "0,1,2", "PATH": "/bin"}
    assert environment_with_gpus(outer, "h200", ["a"]) == outer
    result = environment_with_gpus(outer, "h200x2", ["a", "b"])
    assert (result["CUDA_VISIBLE_DEVICES"], result["NCCL_NVLS_ENABLE"], result["PATH"]) == ("a,b", "0", "/bin")


def test_another_process_waits_until_the_holder_has_died(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    free = []
    try:
        assert holder.stdout.readline() == "held\n"
        with gpu_lock.hold_locks(["GPU-bb"], lambda: True, tmp_path):
            free.append("another GPU")
        with pytest.raises(gpu_lock.LockAbandoned), gpu_lock.hold_locks(["GPU-bb", "GPU-aa"], lambda: True, tmp_path):
            free.append("never")
    finally:
        holder.kill()
        holder.wait()
    with gpu_lock.hold_locks(["GPU-aa", "GPU-bb"], lambda: False, tmp_path):
        free.append("the same GPU")
    assert free == ["another GPU", "the same GPU"]
