#!/usr/bin/env bash
# Variants beside peers that Inductor compiles, one or two shapes of each op, decode attention first.
#
# Writes library-compiled.json. Predicted: 130 s, as it took at 3b0f9f5: 14 cases, attention's two 48 s.
set -euo pipefail
LIMIT=${LIMIT:-400}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

bench=("$PYTHON" -m kernels bench)
kept=(--json "$OUT/library-compiled.json" --append)

step attention 110 "${bench[@]}" attention "${kept[@]}" \
    --only "kind=decode head_dim=128 heads=32 kv_heads=8 batch=8 q_len=1 kv_len=8192 causal=True dtype=bf16 kv_dtype=bf16" \
    --only "kind=decode head_dim=64 heads=32 kv_heads=8 batch=1 q_len=1 kv_len=65536 causal=True dtype=bf16 kv_dtype=bf16"
step fused 200 "${bench[@]}" fused "${kept[@]}" \
    --only "rmsnorm m=16384 n=2048 residual=True" --only "gated m=16384 n=8192 activation=silu" \
    --only "rope batch=1 q_len=16384 heads=32 kv_heads=8 head_dim=64 append=True" \
    --only "lm_head m=8 vocab=128256 k=2048 sampling=top_k_p dtype=bf16 weights=bf16"
step gemm 150 "${bench[@]}" gemm "${kept[@]}" \
    --only "m=4096 n=14336 k=4096 dtype=bf16 weights=bf16 epilogue=swiglu" \
    --only "m=4096 n=4096 k=4096 dtype=bf16 weights=bf16 epilogue=residual" --only "grouped rows=8192 experts=8"
finish
