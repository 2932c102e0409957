#!/usr/bin/env bash
# int8 weights served: the product for up to 256 rows through the gate and beside bf16's, then the engine in process with
# 8 and 16 requests at once, in bf16 and in int8, for Llama-3.1-8B's and Llama-3.2-1B's shape.
#
# Writes gemm-int8.json, serve-int8-llama-3.1-8b.json and serve-int8-llama-3.2-1b.json. Predicted: 190 s; 25 for the
# gate, 25 for the products, 95 for the 8B, 45 for the 1B. Products of 28,672 x 4,096 are predicted to take 35 us in int8
# with 32 rows, where bf16 takes 63.
set -euo pipefail
LIMIT=${LIMIT:-198}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step gate 40 "$PYTHON" -m pytest -q --tb=line -m gpu -p no:cacheprovider tests/kernels/gemm/test_small.py \
    tests/kernels/server/test_gpu_backends.py -k "int8 and (17-200 or 64-72 or 100-200 or both_backends)"
engine() {
    step "$1" "$2" "$PYTHON" -m benchmarks.serve_engine --model "$1" --weights bf16 int8 --at-once 8 16 --rounds 4 \
        --json "$OUT/serve-int8-$1.json"
}
engine llama-3.1-8b 115
only=()
for shape in 32:28672:4096 32:4096:14336 128:28672:4096 256:28672:4096; do
    IFS=: read -r m n k <<< "$shape"
    for weights in bf16 int8; do only+=(--only "m=$m n=$n k=$k dtype=bf16 weights=$weights"); done
done
step products 30 "$PYTHON" -m kernels bench gemm --variant small_gemm --variant small_gemm_int8 --seconds 3 \
    "${only[@]}" --json "$OUT/gemm-int8.json"
engine llama-3.2-1b 80
finish
