"""The peer on several GPUs, by gloo on a CPU: divided over two ranks it serves the ids of one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def test_two_ranks_serve_the_ids_of_one_and_say_where(tmp_path: Path) -> None:
    found: list[dict[str, Any]] = []
    path, environment = tmp_path / "peer.json", os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    for ranks in ("1", "2"):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks]
        asked = [
            "-m",
            "benchmarks.tensor_parallel",
            "tiny-llama",
            "--device",
            "cpu",
            "--rounds",
            "1",
            "--json",
            str(path),
        ]
        subprocess.run([*torchrun, *asked], env=environment, capture_output=True, timeout=300, check=True, cwd=ROOT)
        found.append(json.loads(path.read_text()))
    one, two = found
    assert (one["gpus"], two["gpus"]) == (1, 2)
    assert one["ids"] == two["ids"]
    assert len(set(two["ids"])) > 1
    assert two["same_ids"]
    assert two["ms_per_token"] > 0
    assert {"device", "versions", "commit", "at"} <= set(two)
