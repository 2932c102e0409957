#!/usr/bin/env bash
# int4 in its three forms, the LM head in int8: the gate of its products; Llama-3.1-8B's shape as an AWQ checkpoint has it
# (zero points, groups of 128) served to 1 and 8 requests in bf16 and int4; tokens of the 8B's and the 1B's shape.
#
# ONLY="awq_model awq", with VLLM (use-vllm.sh): an AWQ checkpoint of that shape through HTTP, beside vLLM on the same
# files: 250 s, 60 to write it.
#
# Writes serve-int4-llama-3.1-8b.json, serve-awq.json, decode-int4-8b.json and decode-int4-1b.json. Predicted: 280 s, 30
# for the gate, 110 to serve, 95 and 45 for the tokens; ONLY="gate serve" and ONLY="decode_8b decode_1b" are two calls.
set -euo pipefail
LIMIT=${LIMIT:-285}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

gate() {
    step gate 60 "$PYTHON" -m pytest -q --tb=line -m gpu -p no:cacheprovider \
        tests/kernels/megakernel/test_gpu_weights.py tests/kernels/gemm/test_skinny_gpu.py -k "$1"
}
decode() {
    step "$1" "$2" "$PYTHON" -m kernels bench decode --model "$3" --batch 1 --prompt 128 --seconds 3 --rounds 12 \
        --runner megakernel_int4_zero --runner megakernel_int4_minimum --runner megakernel_int4 \
        --json "$OUT/decode-int4-${3##*-}.json"
}
gate "int4 and (1-a or 8-a or (8-72 and bf16))"
step serve 150 "$PYTHON" -m benchmarks.serve_engine --model llama-3.1-8b --stored int4_zero --weights bf16 int4 \
    --at-once 1 8 --rounds 4 --json "$OUT/serve-int4-llama-3.1-8b.json"
if [[ " ${ONLY:-} " == *" awq"* ]]; then
    step awq_model 90 "$PYTHON" -m benchmarks.quantised_model llama-3.1-8b "$scratch/llama-3.1-8b-awq" --format awq
    step awq 240 "$PYTHON" -m kernels bench serve --model "$scratch/llama-3.1-8b-awq" --weights int4 --users 1 --users 8 \
        --vllm "$VLLM_PYTHON" --json "$OUT/serve-awq.json"
fi
decode decode_8b 130 llama-3.1-8b
decode decode_1b 70 llama-3.2-1b
finish
