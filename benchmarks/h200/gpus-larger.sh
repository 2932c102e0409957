#!/usr/bin/env bash
# Whole runs of models that no GPU alone holds, on two H200s, and what they are compared with beside other ways of it.
#
#   tests    transformers' modules over the parts of a model on two GPUs, and their profile
#   today    a token of Llama-3.1-8B by these modules, by whole layers on one GPU after the other (as device_map places
#            them), and by one GPU
#   small    the workbench's run of Llama-3.1-8B where a GPU entry says that an H200 has 12 GiB
#   large    the workbench's run of Llama-3.1-70B's shape, with MINUTES (default 5); ONLY=large in a call of its own
#
# Writes today.json, and in small/ and large/ run.json, plan.json, report.html and result.html. Predicted: 230 s, of them
# tests 30, today 50 and small 150; large 420.
set -euo pipefail
LIMIT=${LIMIT:-590}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
sla=benchmarks/h200/gpus-larger.yaml
if [[ -z ${ONLY:-} ]]; then ONLY="tests today small"; fi

step tests 60 "$PYTHON" -m pytest tests/kernels/runners/test_divided.py -q -m gpu -p no:cacheprovider
step today 90 "$PYTHON" -m benchmarks.several_gpus_today llama-3.1-8b --json "$OUT/today.json"

mkdir -p "$scratch/gpus"
entry='from dataclasses import replace; from pathlib import Path; from kernels.hardware import GPUS, write_entry; import sys
write_entry(Path(sys.argv[1]), replace(GPUS["h200"], memory_gib=12.0))'
if [[ -z $DRY_RUN ]]; then "$PYTHON" -c "$entry" "$scratch/gpus/h200.json"; fi
run=("$PYTHON" -m benchmarks.workbench_run) more=(--sla "$sla" --data "$scratch/data")
step small 230 env KERNELS_GPUS="$scratch/gpus" "${run[@]}" llama-3.1-8b "${more[@]}" --minutes 2 --seconds 200 --output "$OUT/small"
step large 580 "${run[@]}" llama-3.1-70b "${more[@]}" --minutes "${MINUTES:-5}" --seconds 540 --output "$OUT/large"
keep logs "$scratch/data/log"
finish
