#!/usr/bin/env bash
# The megakernel of mixtures of experts: its checks on small models, then `bench decode` of OLMoE-1B-7B and of
# Qwen3-30B-A3B, whose 61 GB are drawn on the GPU and held twice.
#
# Writes decode-moe.json. The checks took 85 s at 4b573be. Predicted: 205 s, of which `bench decode`, which has not run,
# takes 120.
set -euo pipefail
LIMIT=${LIMIT:-235}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

pytest=("$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --maxfail=3 -s)

step checks 110 "${pytest[@]}" tests/kernels/megakernel/test_gpu_experts.py
step decode 150 "$PYTHON" -m kernels bench decode --model olmoe-1b-7b --model qwen3-30b-a3b --batch 1 --prompt 128 \
    --runner megakernel --runner kernels --seconds 8 --json "$OUT/decode-moe.json"
finish
