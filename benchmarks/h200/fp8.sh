#!/usr/bin/env bash
# Weights in fp8 as a checkpoint has them: the gate of their products, Llama-3.1-8B's shape served to 1, 8, 32 and 128
# requests in bf16 and in fp8, in process.
#
# ONLY="fp8_model fp8", with VLLM (use-vllm.sh): a checkpoint of that shape as compressed-tensors writes FP8-dynamic,
# through HTTP, beside vLLM on the same files, which rounds activations as well: 330 s, 60 to write it.
#
# ONLY="megakernel_gate megakernel" is the megakernel's part: its products and small models, 88 s, then the same shape
# served to 1, 4 and 8 requests, 44 s.
#
# Writes serve-fp8-llama-3.1-8b.json, serve-fp8.json and serve-fp8-megakernel.json, whose rows are joined with those of
# the first. Predicted: 270 s, 80 for the gate, 190 to serve.
set -euo pipefail
LIMIT=${LIMIT:-285}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

step gate 90 "$PYTHON" -m pytest -q --tb=line -m gpu -p no:cacheprovider tests/kernels/gemm/test_small.py \
    tests/kernels/server/test_gpu_backends.py -k "(fp8 and not pages) or powers_of_two"
step serve 210 "$PYTHON" -m benchmarks.serve_engine --model llama-3.1-8b --stored fp8 --weights fp8 bf16 --no-megakernel \
    --at-once 1 8 32 128 --rounds 4 --json "$OUT/serve-fp8-llama-3.1-8b.json"
if [[ " ${ONLY:-} " == *" megakernel"* ]]; then
    step megakernel_gate 200 "$PYTHON" -m pytest -q --tb=line -m gpu -p no:cacheprovider \
        tests/kernels/megakernel/test_gpu_weights.py tests/kernels/megakernel/test_gpu_lossy.py -k "fp8"
    step megakernel 180 "$PYTHON" -m benchmarks.serve_engine --model llama-3.1-8b --stored fp8 --weights fp8 \
        --at-once 1 4 8 --rounds 4 --json "$OUT/serve-fp8-megakernel.json"
fi
if [[ " ${ONLY:-} " == *" fp8"* ]]; then
    step fp8_model 90 "$PYTHON" -m benchmarks.quantised_model llama-3.1-8b "$scratch/llama-3.1-8b-fp8" --format fp8
    step fp8 270 "$PYTHON" -m kernels bench serve --model "$scratch/llama-3.1-8b-fp8" --weights fp8 --users 1 --users 8 \
        --users 32 --vllm "$VLLM_PYTHON" --json "$OUT/serve-fp8.json"
fi
finish
