#!/usr/bin/env bash
# Whether a commit works on one Hopper GPU, the first thing that a lease runs: the megakernel in each precision against
# torch for 1 to 8 sequences, both backends of the server, the stages of a run, a server, families, mixtures, the plug-in.
#
#   JOBS      gates that run side by side (default 12)
#   ONLY      names of gates: no other one runs
#
# Writes gates.json: of each gate its seconds, and `pass` or the first sentence of its failure. Predicted: 140 s, most of
# it to compile.
set -euo pipefail
LIMIT=${LIMIT:-150} KILL_AFTER=${KILL_AFTER:-5}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

names=()
# gate NAME SECONDS COMMAND...: as `step`, beside others.
gate() {
    if [[ -n ${ONLY:-} && " $ONLY " != *" $1 "* ]]; then return; fi
    names+=("$1")
    if [[ -n $DRY_RUN ]]; then step "$@"; return; fi
    while (($(jobs -rp | wc -l) >= ${JOBS:-12})); do wait -n || true; done
    LIMIT=$((LIMIT - 15)) step "$@" > "$scratch/$1.txt" 2>&1 &
}
# tests NAME -k WORDS FILE...: a gate of GPU tests.
tests() { gate "$1" 130 "$PYTHON" -m pytest -m gpu -q -x --tb=line -p no:cacheprovider "${@:2}"; }

if [[ -z $DRY_RUN ]]; then rm -f "$scratch"/*.txt; fi
mega=tests/kernels/megakernel
for weights in bf16 int8 int4 fp8 nvfp4; do
    method=nearest
    if [[ $weights == nvfp4 ]]; then method=gptq; fi
    against="$weights-$method-llama and not llama-32"
    if [[ $weights == bf16 ]]; then against="its_logits and llama and not llama-32"; fi
    tests "$weights" -k "($against) or (filled_up and $weights)" $mega/test_gpu_runner.py $mega/test_gpu_lossy.py
done
for served in llama--12-None llama-int8-12-None llama-int4-24-None; do
    tests "backends_$served" -k "both_backends and $served" tests/kernels/server/test_gpu_backends.py
done
gate stages 135 "$PYTHON" -m benchmarks.stages smollm2-135m --sla benchmarks/h200/gates.yaml --seconds 60 \
    --output "$scratch/stages.json"
gate server 100 "$PYTHON" -m benchmarks.serve_steady --minutes 0.2 --json "$scratch/server.json"
gate plug_in 60 env "PYTHONPATH=$root/clients/vllm:$PYTHONPATH" "$PYTHON" -c \
    'from kernel_workbench_vllm import decode_step, register, vllm_interface'
tests attention -k halves tests/kernels/attention/test_step_attention.py
tests families -k "behind_a_prompt and (phi3-1 or granite-1 or olmo2-1 or gemma-1 or gemma3-1)" $mega/test_gpu_runner.py
tests mixtures -k "as_near and (olmoe-1 or qwen3_moe-8)" $mega/test_gpu_experts.py
tests int4_forms -k "a_chunk and (int4_zero or int4_minimum) and (1-a or 8-a)" $mega/test_gpu_weights.py
wait || true

LIMIT= ONLY= step write 20 "$PYTHON" - "$scratch" "$OUT/gates.json" "${names[@]}" << 'END'
import json, re, sys
from pathlib import Path

folder, result, *names = sys.argv[1:]
gates = {}
for name in names:
    text = Path(folder, f"{name}.txt").read_text(errors="replace")
    ended = re.search(rf"^== {re.escape(name)}: status (\d+) after (\d+) s$", text, re.M)
    status, seconds = map(int, ended.groups()) if ended else (-1, 0)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("== ")]
    failures = [line for line in lines if re.match(r"(FAILED|ERROR) |E  |(\w+\.)*\w*(Error|Exception|Fault|Refused)\b", line)]
    reason = (failures or lines or ["nothing ran: no time was left"])[0 if failures else -1]
    if status in (124, 137):
        reason = f"not over after {seconds} s; at last: {lines[-1] if lines else 'nothing'}"
    gates[name] = {"seconds": seconds, "result": "pass" if status == 0 else reason[:300]}
    print(f"{name}: {gates[name]['result']} ({seconds} s)")
Path(result).write_text(json.dumps(gates, indent=1) + "\n")
sys.exit(any(each["result"] != "pass" for each in gates.values()))
END
finish
