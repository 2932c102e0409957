#!/usr/bin/env bash
# Whole runs of models that no GPU alone holds, on two H200s, or with GPUS=4 the large one on four, and the two ways of
# transformers that they are compared with.
#
#   tests    transformers' modules over the shards of a model on two GPUs, and whole layers on one after the other
#   today    a token of Llama-3.1-8B by both, and by one GPU
#   small    the workbench's run of Llama-3.1-8B where a GPU entry says that an H200 has 12 GiB
#   large    the workbench's run of Llama-3.1-70B's shape, with MINUTES (default 5); ONLY=large in a call of its own. On
#            four its promise is a token within 12 ms
#
# Writes today.json, and in small/ and large/ run.json, plan.json, report.html and result.html. Predicted: 230 s, of them
# tests 30, today 50 and small 150. Large: 350, of them 15 until admit is done, 100 for baseline, 25 for the profile, 50
# for compose, 15 to end; a run of 6 minutes took 349 at 4bdd5549.
set -euo pipefail
LIMIT=${LIMIT:-590}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
sla=benchmarks/h200/gpus-larger.yaml
if [[ ${GPUS:-2} == 4 ]]; then sla=benchmarks/h200/gpus-larger-four.yaml; fi
if [[ -z ${ONLY:-} ]]; then ONLY="tests today small"; fi

step tests 60 "$PYTHON" -m pytest tests/kernels/runners/test_sharded.py -q -m gpu -p no:cacheprovider
step today 90 "$PYTHON" -m benchmarks.device_map_baseline llama-3.1-8b --json "$OUT/today.json"

mkdir -p "$scratch/gpus"
entry='from dataclasses import replace; from pathlib import Path; from kernels.hardware import GPUS, write_entry; import sys
write_entry(Path(sys.argv[1]), replace(GPUS["h200"], memory_gib=12.0))'
if [[ -z $DRY_RUN ]]; then "$PYTHON" -c "$entry" "$scratch/gpus/h200.json"; fi
run=("$PYTHON" -m benchmarks.workbench_run) more=(--sla "$sla" --data "$scratch/data")
step small 230 env KERNELS_GPUS="$scratch/gpus" "${run[@]}" llama-3.1-8b "${more[@]}" --minutes 2 --seconds 200 --output "$OUT/small"
step large 580 "${run[@]}" llama-3.1-70b "${more[@]}" --minutes "${MINUTES:-5}" --seconds 540 --output "$OUT/large"
keep logs "$scratch/data/log"
finish
