#!/usr/bin/env bash
# int4 in groups of 32 by the megakernel: a token of Llama-3.1-8B's and Llama-3.2-1B's shape, and the gate of its products.
#
# Writes decode-int4-8b.json and decode-int4-1b.json. Predicted: 80 s: 45 for the 8B and 12 for the gate, as
# at b069cab7, and 20 for the 1B, whose token is predicted to take 0.28 to 0.32 ms.
set -euo pipefail
LIMIT=${LIMIT:-110}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

decode() {
    step "$1" "$2" "$PYTHON" -m kernels bench decode --model "$3" --batch 1 --prompt 128 --seconds 4 --rounds 15 \
        --runner megakernel_int4 --json "$OUT/decode-int4-${3##*-}.json"
}
decode decode_8b 60 llama-3.1-8b
step gate 30 "$PYTHON" -m pytest -q --tb=line -m gpu -p no:cacheprovider tests/kernels/megakernel/test_gpu_weights.py \
    -k "int4 and (whole or beside)"
decode decode_1b 40 llama-3.2-1b
finish
