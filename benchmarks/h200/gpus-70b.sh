#!/usr/bin/env bash
# Llama-3.1-70B's shape on the GPUS (2 or 4, default 2) first GPUs of one host, bf16 and fp8, beside torch's peer: a
# model that no GPU holds, its weights made on them.
#
# Writes decode-70b.json and peer-llama-3.1-70b-symm_mem.json. Predicted: 300 s on two GPUs, 60 of them for the peer,
# and on four, where half the bytes are packed and twice the instructions proven. Each precision: start and ceilings 25
# s, weights 10, torch's own logits 15, the proof of the programs 15 (42 on two shared cores), packing and compiling 20,
# prompts and the gate 10, ten requests of 64 tokens 15, judging 10. Each of two GPUs holds 142.2 GB in bf16 of 150.1,
# and 3.2 more while it packs the LM head; in fp8 107.5 and 35.3 of codes, and 2.6 more. The CUDA context and the last
# layer's products of one row take 1.5 to 2. Each of four holds 73.5.
# By 69.5 GB of a GPU's weights at 4.45 TB/s and 160 exchanges of 1.1 µs a token takes 15.8 ms at least in bf16 on two
# GPUs, 8.0 in fp8; on four, with exchanges of 1.8 µs, 8.1 and 4.2. TTFT reads as much, and sums 160 times 2 MB: 18 to
# 25 ms on two.
set -euo pipefail
LIMIT=${LIMIT:-330}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# NVLink multicast stays off: a program that ends badly with it can leave a host's GPUs unusable.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1

gpus=${GPUS:-2}
[[ $gpus == 2 || $gpus == 4 ]] || { echo "gpus-70b: GPUS is $gpus; 2 and 4 are measured" >&2; exit 2; }
decode=("$PYTHON" -m kernels bench decode --gpus "$gpus" --batch 1 --prompt 128 --model llama-3.1-70b --seconds 10)
peer=("$PYTHON" -m torch.distributed.run --standalone --nproc-per-node "$gpus" -m benchmarks.tensor_parallel)

step bf16 180 "${decode[@]}" --runner megakernel --json "$OUT/decode-70b.json"
step fp8 180 "${decode[@]}" --runner megakernel_fp8 --json "$OUT/decode-70b.json" --append
step peer-symm 90 "${peer[@]}" llama-3.1-70b --sum symm_mem --rounds 10 --json "$OUT/peer-llama-3.1-70b-symm_mem.json"
finish
