#!/usr/bin/env bash
# Host time of one call of each variant, and device times of four variants beside those of another commit.
#
#   BASE=folder-with-kernels bash benchmarks/h200/host-cost.sh     default: .carry/base.tar.xz, which base.sh packs
#
# Writes host-cost.json after each case of each of 4 rounds, and two-commits.json after each of 3 groups of 4 pairs.
# Predicted: 70 s, 66 s at 5a9b2fe: 31 for 22 cases of host times, and 35 for 12 pairs of processes over 11 cases, whose
# kernels had been compiled ahead. A process holds 3 GB and takes up to 8 GB while it packs a weight: 64 GB for 8.
set -euo pipefail
LIMIT=${LIMIT:-400}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step host 90 "$PYTHON" -m benchmarks.host_cost --json "$OUT/host-cost.json"
if [[ -z ${BASE:-} && -f $root/.carry/base.tar.xz && -z $DRY_RUN ]]; then
    BASE=$scratch/base
    rm -rf "$BASE"  # the kernels of an earlier archive may lie there
    mkdir -p "$BASE"
    tar -C "$BASE" -xJf "$root/.carry/base.tar.xz"
fi
step commits 230 "$PYTHON" -m benchmarks.two_commits "${BASE:-$scratch/base}" --json "$OUT/two-commits.json" \
    --only decode_hopper decode_split lm_head_skinny lm_head_skinny_fp8 skinny_fp8
finish
