#!/usr/bin/env bash
# Qwen3-30B-A3B over the GPUS (2 or 4, default 2) first GPUs of one host: the megakernel of small mixtures on as many
# ranks, then the server through HTTP with 1, 8 and 32 users, beside vLLM over as many where VLLM names a folder with it
# (use-vllm.sh). ONLY=decode measures batches of 1 and 4 in process instead, on one GPU and on all; ONLY=backends checks
# the server's two backends of a small Qwen3-MoE and a small gpt-oss on two.
#
#   GPUS=4 bash benchmarks/h200/moe-gpus.sh
#
# Writes serve-moe.json or decode-moe.json. Predicted: 240 s without vLLM: the checks compile two kernels and take 45, the
# server took 104 to 108 to start, its loads 15, and it is judged on one GPU. ONLY=decode 130, ONLY=backends 50.
set -euo pipefail
LIMIT=${LIMIT:-280}
ONLY=${ONLY:-checks serve}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

gpus=${GPUS:-2}
ranks=two-gpus
if ((gpus == 4)); then ranks=four-gpus; fi
pytest=("$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --maxfail=2)
bench=("$PYTHON" -m kernels bench)
model=(--model qwen3-30b-a3b --tensor-parallel-size "$gpus")

step checks 75 "${pytest[@]}" tests/kernels/megakernel/test_gpu_ranks.py -k "a_mixture and $ranks and qwen3_moe"
step backends 80 "${pytest[@]}" tests/kernels/server/test_gpu_backends.py -k "a_mixture and over"
step serve 240 "${bench[@]}" serve "${model[@]}" --users 1 --users 8 --users 32 "${beside[@]}" \
    --json "$OUT/serve-moe.json" --append
step decode 180 "${bench[@]}" decode "${model[@]}" --batch 1 --batch 4 --prompt 128 --runner megakernel --seconds 3 \
    --json "$OUT/decode-moe.json"
finish
