#!/usr/bin/env bash
# One to four shapes of every op beside its peers, those that Inductor compiles among them, in bursts and settled. First
# the ops whose compiled peers have no figure yet, and the largest products.
#
# Writes library-settled.json. Predicted: 260 s, as it took at 50c3556d with kernels that were compiled ahead; NVRTC and
# the proofs in 8 processes take 90 s more where nothing was.
set -euo pipefail
LIMIT=${LIMIT:-400}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

bench=("$PYTHON" -m kernels bench library --settled --jobs 8 --json "$OUT/library-settled.json" --append)

step first 240 "${bench[@]}" \
    --only "step_attention batch=1 heads=32 kv_heads=8 head_dim=64 kv_len=1088" \
    --only "step_attention batch=32 heads=32 kv_heads=8 head_dim=64 kv_len=1088 paged=True" \
    --only "step_attention batch=32 heads=12 kv_heads=2 head_dim=128 kv_len=192" \
    --only "m=4096 n=6144 k=4096 dtype=bf16 weights=bf16 epilogue=rmsnorm_scale" \
    --only "m=4096 n=14336 k=4096 dtype=bf16 weights=bf16 epilogue=quantise" \
    --only "m=4096 n=14336 k=4096 dtype=bf16 weights=bf16 epilogue=swiglu" \
    --only "m=4096 n=4096 k=4096 dtype=bf16 weights=bf16 epilogue=residual" \
    --only "m=8192 n=8192 k=8192 dtype=bf16 weights=bf16 epilogue=none" \
    --only "m=8192 n=8192 k=8192 dtype=bf16 weights=fp8 epilogue=none scales=row" \
    --only "op=rmsnorm m=16384 n=2048 residual=True dtype=bf16" \
    --only "rmsnorm m=16384 n=2048 residual=True dtype=bf16 quantise=fp8"
step second 240 "${bench[@]}" \
    --only "op=grouped rows=8192 experts=8 n=14336 k=4096 dtype=bf16 epilogue=swiglu" \
    --only "op=grouped rows=32768 experts=128 n=768 k=2048 dtype=bf16 epilogue=swiglu" \
    --only "gated m=16384 n=8192 activation=silu" \
    --only "rope batch=1 q_len=16384 heads=32 kv_heads=8 head_dim=64 append=True paged=False" \
    --only "rope batch=1 q_len=16384 heads=32 kv_heads=8 head_dim=64 append=True paged=True" \
    --only "fft_conv batch=64 width=768 length=4096" \
    --only "lm_head m=1 vocab=128256 k=2048 sampling=argmax dtype=bf16 weights=bf16" \
    --only "lm_head m=8 vocab=128256 k=2048 sampling=top_k_p dtype=bf16 weights=bf16" \
    --only "kind=decode head_dim=128 heads=32 kv_heads=8 batch=8 q_len=1 kv_len=8192 causal=True dtype=bf16 kv_dtype=bf16" \
    --only "kind=decode head_dim=64 heads=32 kv_heads=8 batch=1 q_len=1 kv_len=65536 causal=True dtype=bf16 kv_dtype=bf16" \
    --only "kind=prefill head_dim=128 heads=16 kv_heads=16 batch=4 q_len=4096 kv_len=4096 causal=True"
finish
