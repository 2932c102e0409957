#!/usr/bin/env bash
# Mixtures of experts: the product of tiles and the megakernel checked on small models, then a dense model and
# OLMoE-1B-7B and Qwen3-30B-A3B by `bench decode`, and both mixtures' servers through HTTP, beside vLLM where VLLM names
# a folder with it (use-vllm.sh).
#
# Writes decode-dense.json, decode-moe.json and serve-moe.json. The weights are drawn on the GPU, by each server anew.
# Predicted: 245 s without vLLM.
set -euo pipefail
LIMIT=${LIMIT:-250}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

beside=()
if [[ -n $VLLM_PYTHON ]]; then beside=(--vllm "$VLLM_PYTHON"); fi
pytest=("$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --maxfail=3)
bench=("$PYTHON" -m kernels bench)
few=(--prompt 128 --runner megakernel --seconds 4)

step product 45 "${pytest[@]}" tests/kernels/gemm/test_grouped.py
step checks 50 "${pytest[@]}" tests/kernels/megakernel/test_gpu_experts.py -k "touch or (near and (1 or 5))"
step decode 90 "${bench[@]}" decode --model llama-3.2-1b --model olmoe-1b-7b --model qwen3-30b-a3b --batch 1 --batch 8 \
    "${few[@]}" --json "$OUT/decode-moe.json"
step serve 115 "${bench[@]}" serve --model qwen3-30b-a3b --users 1 --users 8 --users 32 "${beside[@]}" \
    --json "$OUT/serve-moe.json"
step serve-small 60 "${bench[@]}" serve --model olmoe-1b-7b --users 1 --users 8 --users 32 "${beside[@]}" \
    --json "$OUT/serve-moe.json" --append
finish
