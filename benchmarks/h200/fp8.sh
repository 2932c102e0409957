#!/usr/bin/env bash
# Weights in fp8 as a checkpoint has them: the gate of their products, Llama-3.1-8B's shape served to 1, 8, 32 and 128
# requests in bf16 and in fp8, in process.
#
# ONLY="fp8_model fp8", with VLLM (use-vllm.sh): a checkpoint of that shape as compressed-tensors writes FP8-dynamic,
# through HTTP, beside vLLM on the same files, which rounds activations as well. Predicted: 330 s, 60 to write it; 1.1 to
# 1.3 times vLLM's tokens with one user, 0.9 to 1.1 times with 32.
#
# ONLY="megakernel_gate megakernel" is the megakernel's part: its products and small models, then Llama-3.1-8B's shape
# served to 1, 4 and 8 requests. Predicted: 150 s for the gate, 110 to serve. A token reads the 8.03 GB below; the same
# shape with its head in fp8 takes 1.89 to 1.95 ms (decode-8b-fp8.json, h200x2/decode-8b.json), in which 0.53 GB of
# head take 0.12, where 1.05 GB take 0.24: 2.0 to 2.1 ms for 1, 2.5 to 2.7 for 8, which change_over has as token_ms.
#
# Writes serve-fp8-llama-3.1-8b.json, serve-fp8.json and serve-fp8-megakernel.json. Predicted from bytes: a token reads 6.98 GB of layers, 1.05 GB of
# the LM head and 6 MB of scales, 1.83 ms at 4.4 TB/s where bf16 takes 3.41; with what passes of kernels take beside their
# weights (1.0 to 1.4 ms, of int4's steps) 2.8 to 3.2 ms for 1 and 8 at once, 3.6 to 4.1 for 32, as in bf16 for 128.
# Predicted: 270 s, 60 for the gate, 210 to serve.
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
