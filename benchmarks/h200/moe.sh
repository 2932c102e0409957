#!/usr/bin/env bash
# The megakernel of mixtures of experts: its checks on small models, then `bench decode` of OLMoE-1B-7B and of
# Qwen3-30B-A3B, whose 61 GB are drawn on the GPU and held twice, and a token's time by compile-time choices.
#
# Writes decode-moe.json and experts-*.json. The checks took 100 s and the choices 32 and 70 s at 4b573be5; `bench decode`
# has not run. Predicted: 320 s, of which `bench decode` takes 120.
set -euo pipefail
LIMIT=${LIMIT:-330}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

pytest=("$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --maxfail=3 -s)
tuning=("$PYTHON" -m benchmarks.experts_tuning)

step touched 45 "${pytest[@]}" tests/kernels/megakernel/test_gpu_experts.py -k touch
step near 60 "${pytest[@]}" tests/kernels/megakernel/test_gpu_experts.py -k near
step decode 150 "$PYTHON" -m kernels bench decode --model olmoe-1b-7b --model qwen3-30b-a3b --batch 1 --prompt 128 \
    --runner megakernel --runner kernels --seconds 8 --json "$OUT/decode-moe.json"
step olmoe 60 "${tuning[@]}" olmoe-1b-7b --batch 1 --batch 8 --json "$OUT/experts-olmoe.json"
step qwen3 120 "${tuning[@]}" qwen3-30b-a3b --batch 1 --batch 8 --json "$OUT/experts-qwen3.json"
step alike 40 "${pytest[@]}" tests/kernels/megakernel/test_gpu_experts.py -k answer
finish
