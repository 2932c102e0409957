#!/usr/bin/env bash
# vLLM through HTTP without and with the plug-in of clients/vllm, in turns, at 1, 8, 32 and 128 users of Llama-3.2-1B:
# tokens, times, answers judged by the model; the times of the parts of vLLM's loop.
#
#   VLLM=/srv/vllm bash benchmarks/h200/vllm-plugin.sh [OPTION...]    options of benchmarks.vllm_plugin
#   --model llama-3.1-8b --servers vllm vllm_plugin+1 vllm_plugin-int8+1 --rounds 6
#   --trace vllm vllm_plugin            also the kernels of a step of both
#   LIMIT=280 ONLY='install vllm' … --servers vllm vllm_plugin+3eager vllm_plugin+3 --users 1 --users 8 --users 32
#   --rounds 8 --vllm-option=--max-num-seqs=128 --seconds 200       drafts beside prompts without and with graphs, 167 s
#   LIMIT=590 … --model qwen3-30b-a3b --servers vllm vllm_plugin+1 --users 1 --users 8 --users 32 --rounds 6 --turns 2
#   --vllm-option=--max-num-seqs=128 --seconds 490      a mixture, alone on its GPU: 135 s to write and hash the weights,
#   220 to start both, 30 a turn of a server, 80 to judge: 544 s at 33eb2c7d
#
# Writes vllm-plugin.json. Predicted: 370 s for four servers, of which 126 went into starting them at once at 0e1217aa, and
# 147 into two turns but for their last load; 30 for loads of unequal lengths, 25 for judging. 400 for the 8B.
set -euo pipefail
LIMIT=${LIMIT:-450}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"
export KERNELS_VLLM_PYTHON=$VLLM_PYTHON

site=${VLLM_SITE:-${VLLM_FOLDER:-/tmp/vllm}/site}
# As `pip install` of the two wheels would.
step install 20 "$PYTHON" - "$site" << 'END'
import shutil, sys, tomllib
from pathlib import Path

site = Path(sys.argv[1])
for source in (Path("kernels"), Path("clients/vllm/kernel_workbench_vllm")):
    shutil.copytree(source, site / source.name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
project = tomllib.loads(Path("clients/vllm/pyproject.toml").read_text())["project"]
info = site / f"kernel_workbench_vllm-{project['version']}.dist-info"
info.mkdir(exist_ok=True)
(info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in project["entry-points"].items()]
(info / "entry_points.txt").write_text("".join(lines))
END
step gate 40 "$PYTHON" -m pytest -q -x -m gpu tests/kernels/attention/test_step_attention.py -k halves
step vllm 590 "$PYTHON" -m benchmarks.vllm_plugin --site "$site" --json "$OUT/vllm-plugin.json" \
    --seconds $((LIMIT - SECONDS - 75)) "$@"
finish
