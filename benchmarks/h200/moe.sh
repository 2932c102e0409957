#!/usr/bin/env bash
# The megakernel of mixtures of experts: its checks on small models, then a token's time on OLMoE-1B-7B and on
# Qwen3-30B-A3B, whose 61 GB are drawn on the GPU and held twice, beside the kernels runner.
#
# Writes experts-*.json. Predicted: 210 s, of which the checks take 60, OLMoE 40 and Qwen3 110.
set -euo pipefail
LIMIT=${LIMIT:-235}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

pytest=("$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --maxfail=3 -s)
tuning=("$PYTHON" -m benchmarks.experts_tuning)

step touched 40 "${pytest[@]}" tests/kernels/megakernel/test_gpu_experts.py -k touch
step near 60 "${pytest[@]}" tests/kernels/megakernel/test_gpu_experts.py -k near
step olmoe 60 "${tuning[@]}" olmoe-1b-7b --batch 1 --batch 8 --json "$OUT/experts-olmoe.json"
step qwen3 120 "${tuning[@]}" qwen3-30b-a3b --batch 1 --batch 8 --json "$OUT/experts-qwen3.json"
step alike 40 "${pytest[@]}" tests/kernels/megakernel/test_gpu_experts.py -k answer
finish
