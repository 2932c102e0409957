#!/usr/bin/env bash
# The workbench's own run of Llama-3.2-1B: TTF64 within 100 ms, with vLLM as a peer where VLLM names a folder with it.
#
#   MINUTES=8.5     of the workload; 15 leave room for max-autotune (160 s to build) as well
#   EXCLUDE=        variants that are not tried, divided by commas: compiled,compiled_tuned leave their time to others
#   DETACHED=1      starts the run in a session of its own and returns; COLLECT=1, in a later call, waits for it and
#                   takes its results: for calls that are shorter than the run
#
# Writes run.json, plan.json, report.html, result.html, timeline-before.json and timeline-after.json. Predicted: 570 s
# at 8.5 minutes: 20 s until the workers answer, the minutes, 2 s for the pages, and the plan once more, 35 s.
set -euo pipefail
MINUTES=${MINUTES:-8.5}
LIMIT=${LIMIT:-590}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

if [[ -n $VLLM_PYTHON ]]; then WORKER_VLLM=$(dirname "$(dirname "$VLLM_PYTHON")"); export WORKER_VLLM; fi
excluded=()
for name in ${EXCLUDE:+${EXCLUDE//,/ }}; do excluded+=(--exclude "$name"); done
run=("$PYTHON" -m benchmarks.workbench_run llama-3.2-1b --sla benchmarks/h200/flagship.yaml --minutes "$MINUTES"
    "${excluded[@]}" --data "$scratch/data" --rerun)

if [[ -n ${DETACHED:-} ]]; then
    step start 5 bash -c 'setsid nohup "$@" > "$0/log.txt" 2>&1 < /dev/null & echo "$!" > "$0/pid"' "$scratch" \
        "${run[@]}" --output "$scratch/out"
elif [[ -n ${COLLECT:-} ]]; then
    step wait 570 bash -c 'while kill -0 "$(cat "$0/pid")" 2> /dev/null; do sleep 1; done; cat "$0/log.txt"' "$scratch"
    step take 10 cp -r "$scratch/out/." "$OUT"
else
    step flagship 585 "${run[@]}" --seconds 545 --output "$OUT"
fi
keep logs "$scratch/data/log"
finish
