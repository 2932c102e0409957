#!/usr/bin/env bash
# int8 weights in the megakernel: its GPU tests, its variants, where a token's time goes, and whole models.
set -euo pipefail
LIMIT=${LIMIT:-190}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tests=tests/kernels/megakernel
variants=("$PYTHON" benchmarks/h200/int8_variants.py)

VARIANTS='{"two chains": [{}, {}], "one chain": [{"CHAINS": 1}, {}], "four": [{"CHAINS": 4}, {}],
  "whole, one": [{"WHOLE": 1, "CHAINS": 1}, {}], "whole, two": [{"WHOLE": 1}, {}], "whole, four": [{"WHOLE": 1, "CHAINS": 4}, {}],
  "prologue": [{"PROLOGUE_CHUNKS": 2}, {}], "long 5": [{"LONG_IN_FLIGHT": 5}, {}],
  "in flight 4": [{"IN_FLIGHT": 4, "LONG_IN_FLIGHT": 6}, {}], "in flight 2": [{"IN_FLIGHT": 2, "LONG_IN_FLIGHT": 4}, {}],
  "sms 128": [{}, {"sms": 128}], "sms 128, whole, long 5": [{"WHOLE": 1, "LONG_IN_FLIGHT": 5}, {"sms": 128}],
  "prefetch 128K": [{"PREFETCH_BYTES": 131072}, {}], "prefetch 0": [{"PREFETCH_BYTES": 0}, {}],
  "prefetch fast": [{"PREFETCH_CYCLES": 150}, {}], "down 4": [{}, {"down_parts": 4}]}' \
    step variants 80 "${variants[@]}" llama-3.2-1b 0 1 16
step tests 60 "$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --durations=3 --maxfail=3 -k "int8 and (whole or large or lower or llama-32)" \
    "$tests/test_gpu_weights.py" "$tests/test_gpu_lossy.py"
step timeline 25 "$PYTHON" -m kernels megakernel record llama-3.2-1b --weights int8 -o "$OUT/int8.npz"
VARIANTS='{"two chains": [{}, {}], "one": [{"CHAINS": 1}, {}], "whole": [{"WHOLE": 1}, {}], "four": [{"CHAINS": 4}, {}],
  "long 5": [{"LONG_IN_FLIGHT": 5}, {}], "sms 128": [{}, {"sms": 128}], "whole, long 5": [{"WHOLE": 1, "LONG_IN_FLIGHT": 5}, {}]}' \
    step variants-8b 50 "${variants[@]}" llama-3.1-8b 6 1 12
finish
