#!/usr/bin/env bash
# Host time of one call of each variant, and device times of four variants beside those of another commit.
#
#   BASE=folder-with-kernels bash benchmarks/h200/host-cost.sh     default: .carry/base.tar.xz, which base.sh packs
#
# Writes host-cost.json and two-commits.json. Predicted: 170 s. Host: 22 cases took 23 s at d4b93d4; a case that hangs
# costs 60 s. Two commits: 24 processes on all cores compile for 40 s, then 4 rounds of 24 x 9 cases x 15 calls behind a
# cleared L2 (0.5 ms): 25 s a round.
set -euo pipefail
LIMIT=${LIMIT:-400}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step host 170 "$PYTHON" -m benchmarks.host_cost --json "$OUT/host-cost.json"
if [[ -z ${BASE:-} && -f $root/.carry/base.tar.xz && -z $DRY_RUN ]]; then
    BASE=$scratch/base
    mkdir -p "$BASE"
    tar -C "$BASE" -xJf "$root/.carry/base.tar.xz"
fi
step commits 230 "$PYTHON" -m benchmarks.two_commits "${BASE:-$scratch/base}" --json "$OUT/two-commits.json" \
    --only decode_hopper decode_split lm_head_skinny lm_head_skinny_fp8 skinny_fp8
finish
