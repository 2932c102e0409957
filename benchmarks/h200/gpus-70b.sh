#!/usr/bin/env bash
# Llama-3.1-70B's shape on the GPUS (2 or 4, default 2) first GPUs of one host, bf16, fp8 and NVFP4, with their loss from
# float32, beside torch's peer: a model that no GPU holds, its weights made on them. And a timeline of 16 of its layers.
#
# Writes decode-70b.json, timeline-70b-fp8.json.gz and peer-llama-3.1-70b-symm_mem.json. Predicted: 700 s on two GPUs, more
# than a call's 600, so ONLY divides it. Measured on two H200s: fp8 144 s, the timeline 26, bf16 148, NVFP4 177, the peer
# 33; fp8 on four 125. Each of two GPUs holds 142.2 GB in bf16 of 150.1, and 3.2 more while it packs the LM head; in fp8
# 107.5 and 35.3 of codes, and 2.6 more. The CUDA context and the last layer's products of one row take 1.5 to 2. Each of
# four holds 73.5.
set -euo pipefail
LIMIT=${LIMIT:-590}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

gpus=${GPUS:-2}
[[ $gpus == 2 || $gpus == 4 ]] || { echo "gpus-70b: GPUS is $gpus; 2 and 4 are measured" >&2; exit 2; }
decode=("$PYTHON" -m kernels bench decode --tensor-parallel-size "$gpus" --batch 1 --prompt 128 --model llama-3.1-70b --seconds 10
    --fidelity 1024 --json "$OUT/decode-70b.json" --append)
peer=("$PYTHON" -m torch.distributed.run --standalone --nproc-per-node "$gpus" -m benchmarks.tensor_parallel)

step fp8 240 "${decode[@]}" --runner megakernel_fp8
step record 80 "$PYTHON" -m kernels megakernel record llama-3.1-70b --tensor-parallel-size "$gpus" --weights fp8 --layers 16 \
    -o "$scratch/timeline.npz"
step trace 40 "$PYTHON" -m kernels megakernel trace "$scratch/timeline.npz" -o "$OUT/timeline-70b-fp8.json.gz"
step bf16 240 "${decode[@]}" --runner megakernel
step nvfp4 240 "${decode[@]}" --runner megakernel_nvfp4
KILL_AFTER=40
step peer-symm 90 "${peer[@]}" llama-3.1-70b --sum symm_mem --rounds 10 --json "$OUT/peer-llama-3.1-70b-symm_mem.json"
finish
