#!/usr/bin/env bash
# int8 weights in the megakernel: variants, GPU tests, where a token's time goes, and whole models.
set -euo pipefail
LIMIT=${LIMIT:-190}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tests=tests/kernels/megakernel
variants=("$PYTHON" benchmarks/h200/int8_variants.py)

VARIANTS='{"ahead 4": [{}, {}], "ahead 2": [{"CHAINS": 2}, {}], "ahead 1": [{"CHAINS": 1}, {}],
  "plain 4": [{"AHEAD": 0}, {}], "plain 2": [{"AHEAD": 0, "CHAINS": 2}, {}], "kept": [{"MOST_INPUT": 0}, {}],
  "long 3": [{"LONG_IN_FLIGHT": 3}, {}], "in 2": [{"IN_FLIGHT": 2}, {}], "in 2 long 3": [{"IN_FLIGHT": 2, "LONG_IN_FLIGHT": 3}, {}],
  "in 4": [{"IN_FLIGHT": 4}, {}], "long 7": [{"LONG_IN_FLIGHT": 7}, {}], "down 4": [{}, {"down_parts": 4}],
  "down 4 in 2": [{"IN_FLIGHT": 2}, {"down_parts": 4}], "132": [{}, {"sms": 132}], "132 down 4 in 2": [{"IN_FLIGHT": 2}, {"sms": 132, "down_parts": 4}],
  "prefetch 96K": [{"PREFETCH_BYTES": 98304}, {}], "prefetch 128K": [{"PREFETCH_BYTES": 131072}, {}],
  "down 4 128K": [{"PREFETCH_BYTES": 131072}, {"down_parts": 4}], "copies 4": [{}, {"copies": 4}], "watch": [{"WATCH": 1}, {}], "watch down 4": [{"WATCH": 1}, {"down_parts": 4}], "ahead 4 again": [{}, {}]}' \
    step variants 50 "${variants[@]}" llama-3.2-1b 0 1 50
VARIANTS='{"ahead 4": [{}, {}], "plain 4": [{"AHEAD": 0}, {}], "132": [{}, {"sms": 132}], "in 2": [{"IN_FLIGHT": 2}, {}],
  "in 4": [{"IN_FLIGHT": 4, "LONG_IN_FLIGHT": 6}, {}], "long 7": [{"LONG_IN_FLIGHT": 7}, {}], "down 8": [{}, {"down_parts": 8}], "down 4": [{}, {"down_parts": 4}], "down 2": [{}, {"down_parts": 2}], "watch": [{"WATCH": 1}, {}]}' \
    step variants-qwen 40 "${variants[@]}" qwen2.5-1.5b 0 1 40
VARIANTS='{"ahead 4": [{}, {}], "plain 4": [{"AHEAD": 0}, {}], "132": [{}, {"sms": 132}], "in 4": [{"IN_FLIGHT": 4, "LONG_IN_FLIGHT": 6}, {}],
  "long 7": [{"LONG_IN_FLIGHT": 7}, {}], "down 4": [{}, {"down_parts": 4}], "in 2": [{"IN_FLIGHT": 2}, {}], "watch": [{"WATCH": 1}, {}]}' \
    step variants-8b 30 "${variants[@]}" llama-3.1-8b 6 1 30
for batch in 4 8; do
    VARIANTS='{"ahead": [{}, {}], "plain": [{"AHEAD": 0}, {}], "kept": [{"MOST_INPUT": 0}, {}]}' \
        step "variants-$batch" 20 "${variants[@]}" llama-3.2-1b 0 "$batch" 20
done
step timeline 20 "$PYTHON" -m kernels megakernel record llama-3.2-1b --weights int8 -o "$OUT/int8.npz"
step tests 40 "$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --maxfail=3 -k "int8 and (lower or llama-32)" "$tests/test_gpu_lossy.py"
step decode 60 "$PYTHON" -m kernels bench decode --model llama-3.2-1b --model qwen2.5-1.5b --batch 1 --prompt 128 \
    --runner megakernel_int8 --fidelity 1024 --seconds 5 --json "$OUT/decode-int8.json"
finish
