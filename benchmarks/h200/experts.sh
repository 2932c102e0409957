#!/usr/bin/env bash
# Experts in int8 and MXFP4: their products through the gate and timed, a small model of each family on the GPU, then
# steps of gpt-oss-20b's shape in MXFP4 and of Qwen3-30B-A3B in int8, each beside its own bf16.
#
# Writes experts-products.json, decode-experts-gpt-oss.json and decode-experts-qwen3.json. The weights are drawn on the
# GPU. Predicted: 190 s, in two calls by ONLY="gate checks products gpt_oss" and ONLY=qwen3: 25 for the gate, 15 for the
# models, 15 for the products, 70 and 65 for the steps.
set -euo pipefail
LIMIT=${LIMIT:-195}
ONLY=${ONLY:-gate checks products gpt_oss qwen3}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

pytest=("$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --maxfail=3)
decode=("$PYTHON" -m kernels bench decode --batch 1 --batch 8 --prompt 128 --seconds 2)

step gate 60 bash -c 'set -eo pipefail; for format in mxfp4 int8; do
    "$PYTHON" -m kernels check grouped --variant "grouped_$format" --jobs 4 | grep -v ^refused; done'
step checks 45 "${pytest[@]}" tests/kernels/runners/test_gpu_experts.py -k "fewer"
step products 50 "$PYTHON" -m kernels bench gemm --variant grouped_int8 --variant grouped_mxfp4 --seconds 5 \
    --only "rows=4 experts=32 n=2880 k=2880 dtype=bf16 epilogue=swigluoai" \
    --only "rows=4 experts=32 n=2880 k=2880 dtype=bf16 epilogue=bias weights=mxfp4" \
    --only "rows=8 experts=128 n=768 k=2048 dtype=bf16 epilogue=swiglu weights=int8" \
    --only "rows=8 experts=128 n=2048 k=768 dtype=bf16 epilogue=none weights=int8" \
    --json "$OUT/experts-products.json"
step gpt_oss 110 "${decode[@]}" --model gpt-oss-20b --runner kernels_mxfp4 --runner kernels \
    --json "$OUT/decode-experts-gpt-oss.json"
step qwen3 110 "${decode[@]}" --model qwen3-30b-a3b --runner kernels_int8 --runner kernels \
    --json "$OUT/decode-experts-qwen3.json"
finish
