#!/usr/bin/env bash
# int8 beside bf16: a layer's products with 8 to 256 rows of x, then tokens by the megakernel at batch 1, and of
# Llama-3.1-8B's shape at batch 4 and 8.
#
# Writes few-rows.json, decode-int8-8b-batches.json and decode-int8.json. Predicted: 180 s, as it
# took in two parts with 32 cores: 11 for the 8B's products, 48 to compile, 76 for the 8B, 41 for the other two.
set -euo pipefail
LIMIT=${LIMIT:-230}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

made() {
    step "compile_$1" 60 "$PYTHON" -m kernels compile --into "${KERNELS_PREBUILT:-/tmp/kernels-prebuilt}" \
        --jobs "$(nproc)" --no-server --plans-only --weights int8 "${@:2}"
}
decode() {
    step "$1" "$2" "$PYTHON" -m kernels bench decode --runner megakernel --runner megakernel_int8 --prompt 128 "${@:3}"
}
step products 85 "$PYTHON" -m benchmarks.few_rows --model llama-3.1-8b llama-3.2-1b --json "$OUT/few-rows.json"
made 8b --model llama-3.1-8b --batch 1 --batch 4 --batch 8
decode decode_8b 90 --model llama-3.1-8b --batch 1 --batch 4 --batch 8 --seconds 4 --rounds 12 \
    --json "$OUT/decode-int8-8b-batches.json"
made small --model llama-3.2-1b --model qwen2.5-1.5b
decode decode_small 60 --model llama-3.2-1b --model qwen2.5-1.5b --batch 1 --seconds 4 --rounds 20 \
    --json "$OUT/decode-int8.json"
finish
