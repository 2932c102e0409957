#!/usr/bin/env bash
# int8 beside bf16: a layer's products with 8 to 256 rows of x, then tokens by the megakernel at batch 1, and of
# Llama-3.1-8B's shape at batch 4 and 8.
#
# Writes few-rows.json, decode-int8-8b-batches.json and decode-int8.json. Predicted: 165 s with megakernels that were
# compiled ahead; 65 s for 48 products, half of it for 150 binaries by NVRTC, 60 s for the 8B, 40 s for the other two.
set -euo pipefail
LIMIT=${LIMIT:-195}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step products 80 "$PYTHON" -m benchmarks.few_rows --model llama-3.1-8b llama-3.2-1b --json "$OUT/few-rows.json"
decode() { step "$1" "$2" "$PYTHON" -m kernels bench decode --runner megakernel --runner megakernel_int8 --prompt 128 "${@:3}"; }
decode 8b 90 --model llama-3.1-8b --batch 1 --batch 4 --batch 8 --seconds 4 --rounds 12 \
    --json "$OUT/decode-int8-8b-batches.json"
decode small 60 --model llama-3.2-1b --model qwen2.5-1.5b --batch 1 --seconds 4 --rounds 20 --json "$OUT/decode-int8.json"
finish
