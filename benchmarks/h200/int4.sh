#!/usr/bin/env bash
# int4 in groups of 32 by the megakernel: a token of Llama-3.1-8B's and Llama-3.2-1B's shape, and the gate of its products;
# then int8's products for 16 to 256 rows beside bf16's.
#
# Writes decode-int4-8b.json, decode-int4-1b.json and few-rows.json. Predicted: 110 s; 40 for the 8B, 15 for the gate,
# 35 for the products, 20 for the 1B. A token of the 8B is predicted to take 1.2 to 1.35 ms, of the 1B 0.28 to 0.32.
set -euo pipefail
LIMIT=${LIMIT:-125}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

decode() {
    step "$1" "$2" "$PYTHON" -m kernels bench decode --model "$3" --batch 1 --prompt 128 --seconds 4 --rounds 15 \
        --runner megakernel_int4 --json "$OUT/decode-int4-${3##*-}.json"
}
decode decode_8b 60 llama-3.1-8b
step gate 30 "$PYTHON" -m pytest -q --tb=line -m gpu -p no:cacheprovider tests/kernels/megakernel/test_gpu_weights.py \
    -k "int4 and (whole or beside)"
step products 45 "$PYTHON" -m benchmarks.few_rows --model llama-3.1-8b --rows 32 128 64 256 16 --tried 1 \
    --json "$OUT/few-rows.json"
decode decode_1b 40 llama-3.2-1b
finish
