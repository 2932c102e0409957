#!/usr/bin/env bash
# Llama-3.1-70B's shape on two GPUs of one host, bf16 and fp8: a model that neither GPU holds, its weights made on them.
#
# Writes decode-two-gpus-70b.json. Predicted: 240 s. Each precision: start and ceilings 25 s, weights 10, torch's own
# logits 15, the proof of the programs 15 (42 on two shared cores), packing and compiling 20, prompts and the gate 10,
# ten requests of 64 tokens 15, judging 10.
# Each GPU holds 142.2 GB in bf16 of 150.1, and 3.2 more while it packs the LM head; in fp8 107.5 and 35.3 of codes, and
# 2.6 more. The CUDA context and the last layer's products of one row take 1.5 to 2.
# By 69.5 GB of a GPU's weights at 4.45 TB/s and 160 exchanges of 1.1 µs a token takes 15.8 ms at least in bf16, 8.0 in
# fp8; TTFT reads as much, and sums 160 times 2 MB: 18 to 25 ms.
set -euo pipefail
LIMIT=${LIMIT:-290}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# NVLink multicast stays off: a program that ends badly with it can leave a host's GPUs unusable.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1

decode=("$PYTHON" -m kernels bench decode --gpus 2 --batch 1 --prompt 128 --model llama-3.1-70b --seconds 10)

step bf16 180 "${decode[@]}" --runner megakernel --json "$OUT/decode-two-gpus-70b.json"
step fp8 180 "${decode[@]}" --runner megakernel_fp8 --json "$OUT/decode-two-gpus-70b.json" --append
finish
