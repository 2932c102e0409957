#!/usr/bin/env bash
# int8 weights served: the gate of the product for up to 256 rows, then the engine in process with 8 and 32 requests at
# once, in bf16 and in int8, for Llama-3.1-8B's and Llama-3.2-1B's shape. The passes' arrangements are timed as a server
# times them, beside the model's own weights.
#
# Writes serve-int8-llama-3.1-8b.json and serve-int8-llama-3.2-1b.json. Predicted: 190 s; 25 for the gate, 110 for the
# 8B, 55 for the 1B.
set -euo pipefail
LIMIT=${LIMIT:-198}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step gate 40 "$PYTHON" -m pytest -q --tb=line -m gpu -p no:cacheprovider tests/kernels/gemm/test_small.py \
    tests/kernels/server/test_gpu_backends.py -k "int8 and (17-200 or 64-72 or 100-200 or both_backends)"
engine() {
    step "$1" "$2" "$PYTHON" -m benchmarks.serve_engine --model "$1" --weights bf16 int8 --at-once 8 32 --rounds 4 \
        --json "$OUT/serve-int8-$1.json"
}
engine llama-3.1-8b 150
engine llama-3.2-1b 90
finish
