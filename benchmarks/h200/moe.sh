#!/usr/bin/env bash
# Mixtures of experts: the product of tiles and the megakernel checked on small models, then a dense model, OLMoE-1B-7B
# and Qwen3-30B-A3B by `bench decode`, and the servers of both mixtures through HTTP, beside vLLM where VLLM names a
# folder with it (use-vllm.sh). ONLY=record records where the time of a layer goes. ONLY="cold warm" starts Qwen3-30B-A3B's
# server twice, with empty caches and with filled ones.
#
# Writes decode-moe.json, serve-moe.json and timeline.npz. The weights are drawn on the GPU, by each server anew.
# Predicted: 480 s without vLLM, the record and the starts, which took 46 s cold and 23 warm at e2500a17, and 38 passes 19
# s more after it.
set -euo pipefail
LIMIT=${LIMIT:-490}
ONLY=${ONLY:-product checks decode serve serve-small}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

pytest=("$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --maxfail=3)
bench=("$PYTHON" -m kernels bench)
users=(--users 1 --users 8 --users 32 --users 128)

step product 90 "${pytest[@]}" tests/kernels/gemm/test_grouped.py
step checks 100 "${pytest[@]}" tests/kernels/megakernel/test_gpu_experts.py -k "touch or near"
step decode 180 "${bench[@]}" decode --model qwen3-30b-a3b --model olmoe-1b-7b --model llama-3.2-1b --batch 1 --batch 8 \
    --prompt 128 --runner megakernel --seconds 3 --json "$OUT/decode-moe.json"
step serve 260 "${bench[@]}" serve --model qwen3-30b-a3b "${users[@]}" "${beside[@]}" --json "$OUT/serve-moe.json"
step serve-small 60 "${bench[@]}" serve --model olmoe-1b-7b "${users[@]}" "${beside[@]}" \
    --json "$OUT/serve-moe.json" --append
starts 170 --model qwen3-30b-a3b
step record 60 bash -c '"$0" -m kernels megakernel record qwen3-30b-a3b -o "$1" && "$0" -m kernels megakernel trace "$1"' \
    "$PYTHON" "$OUT/timeline.npz"
finish
