#!/usr/bin/env bash
# Submit a workload with curl and jq, wait for its verdict, and exit with it: a build fails on a missed SLA.
#
#     WORKBENCH_URL=https://workbench.example.com WORKBENCH_TOKEN=… bash gate.sh workload.json
#
# Exit codes as of `workbench submit --wait`: 0 met, 1 missed, 2 usage or bad input, 3 failed, 4 not enough samples,
# 5 cancelled or lost, 6 too close to call.
set -euo pipefail
[[ $# == 1 && -r $1 && ${WORKBENCH_URL:-} && ${WORKBENCH_TOKEN:-} ]] || {
    echo "usage: bash gate.sh workload.json, with WORKBENCH_URL and WORKBENCH_TOKEN set" >&2
    exit 2
}

call() {  # call PATH [BODY]: prints the answer, or the server's sentence
    local answer status
    answer=$(curl -sS --retry 5 --retry-connrefused --fail-with-body "$WORKBENCH_URL/api/v1$1" \
        -H "Authorization: Bearer $WORKBENCH_TOKEN" \
        ${2:+-H "Content-Type: application/json" -H "Idempotency-Key: $(cat /proc/sys/kernel/random/uuid)" --data-binary "$2"}) || {
        jq -r .detail <<<"$answer" >&2 || echo "$answer" >&2
        status=$(jq -r .status <<<"$answer") || status=500
        ((${status:-500} < 500)) && return 2 || return 3
    }
    echo "$answer"
}

bad() { exit $(($1 == 2 ? 2 : 3)); }  # no other code may come from curl or jq: each has a meaning here

workload=$(call /workloads "@$1" | jq -r .id) || bad $?
run=$(call /runs "{\"workload\": \"$workload\"}" | jq -r .id) || bad $?
while :; do
    answer=$(call "/runs/$run") || bad $?
    state=$(jq -r .state <<<"$answer") || bad $?
    case $state in done | failed | cancelled | lost) break ;; esac
    sleep "${WORKBENCH_POLL_SECONDS:-5}"
done
verdict=$(jq -r '.verdict // ""' <<<"$answer")
echo "${verdict:-$state}  $WORKBENCH_URL/runs/$run/"
case ${verdict:-$state} in
    met) exit 0 ;;
    missed) exit 1 ;;
    not_enough_samples) exit 4 ;;
    cancelled | lost) exit 5 ;;
    too_close) exit 6 ;;
    *) exit 3 ;;
esac
