#!/usr/bin/env bash
# Ten minutes of open load on the server of Llama-3.2-1B: memory over time, lost requests, exact counts of tokens. No
# time is measured: with DETACHED, tests may run on the GPU meanwhile.
#
#   MINUTES=10 RATE=100   of the load; requests a second
#   GPUS=1          so many GPUs share the model, by tensor parallelism
#
# Writes serve-steady.json. Predicted: 630 s, as at 4895f2b: 20 s with warm caches until the server answers, the minutes,
# and a few seconds until all is counted.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

load=("$PYTHON" -m benchmarks.serve_steady --model llama-3.2-1b --minutes "${MINUTES:-10}" --rate "${RATE:-100}"
    --max-num-seqs 128 --tensor-parallel-size "${GPUS:-1}")

if [[ -n ${DETACHED:-} ]]; then
    step start 5 bash -c 'setsid nohup "$@" > "$0/log.txt" 2>&1 < /dev/null & echo "$!" > "$0/pid"' "$scratch" \
        "${load[@]}" --json "$scratch/serve-steady.json"
elif [[ -n ${COLLECT:-} ]]; then
    step wait 570 bash -c 'while kill -0 "$(cat "$0/pid")" 2> /dev/null; do sleep 1; done; cat "$0/log.txt"' "$scratch"
    step take 10 cp "$scratch/serve-steady.json" "$OUT"
else
    step load 900 "${load[@]}" --json "$OUT/serve-steady.json"
fi
finish
