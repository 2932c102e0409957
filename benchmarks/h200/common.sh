# Sourced by every script here: where the results go, which Python runs, and `step`.
#
#   OUT         folder of the results (default build/h200/<script>); log.txt there has what every step printed
#   PYTHON      default: the virtual environment of `make setup`, else python3 with the packages of use-site.sh
#   LIMIT       seconds for the whole script; a step that comes later gets what is left
#   ONLY        names of steps: no other step runs, so a script may be run in several calls
#   DRY_RUN=1   prints the commands and runs none
#   DETACHED=1  starts the run or load in a session of its own and returns; COLLECT=1, in a later call, waits for it and
#               takes its results so far: for runs that are longer than a call
#   WORKBENCH_COMMIT   the commit that the results name, where this folder is no git checkout

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root"
script=$(basename "$0" .sh)
OUT=${OUT:-$root/build/h200/$script}
scratch=${SCRATCH:-/tmp/h200-$script}
DRY_RUN=${DRY_RUN:-}
failed=()

if [[ -z ${PYTHON:-} && -x $root/.venv/bin/python ]]; then
    PYTHON=$root/.venv/bin/python
elif [[ -z $DRY_RUN ]]; then
    . "$here/use-site.sh"
fi
PYTHON=${PYTHON:-python3}
export PYTHON PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
# NVLink multicast stays off: a program that ends badly with it can leave a host's GPUs unusable.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1 VLLM_ALLREDUCE_USE_SYMM_MEM=0

if [[ -z $DRY_RUN ]]; then
    mkdir -p "$OUT" "$scratch"
    if [[ -z ${WORKBENCH_COMMIT:-} && ! -e $root/.git ]]; then
        echo "$script: this folder is no git checkout; name its commit in WORKBENCH_COMMIT" >&2
        exit 2
    fi
fi

# step NAME SECONDS COMMAND...: runs the command for that long at most; it is then interrupted, as by Ctrl-C, so that it
# ends its servers, and killed KILL_AFTER (default 20) seconds later. Nothing that it does ends the script.
step() {
    local name=$1 most=$2 began=$SECONDS status=0
    shift 2
    if [[ -n ${ONLY:-} && " $ONLY " != *" $name "* ]]; then return; fi
    if [[ -n $DRY_RUN ]]; then
        printf '%q ' "$@"
        echo
        return
    fi
    if [[ -n ${LIMIT:-} ]] && ((most > LIMIT - SECONDS)); then
        most=$((LIMIT - SECONDS))
        if ((most < 5)); then
            echo "== $name: left out, the $LIMIT s are over" | tee -a "$OUT/log.txt"
            failed+=("$name")
            return
        fi
    fi
    echo "== $name, at most $most s, $SECONDS s after the start: $*" | tee -a "$OUT/log.txt"
    timeout --signal=INT --kill-after="${KILL_AFTER:-20}" "$most" "$@" 2>&1 | tee -a "$OUT/log.txt" || status=${PIPESTATUS[0]}
    echo "== $name: status $status after $((SECONDS - began)) s" | tee -a "$OUT/log.txt"
    if ((status)); then failed+=("$name"); fi
}

# site_run MODULE ARGUMENTS...: benchmarks.MODULE, which starts a site, into OUT. With DETACHED it is started in a session
# of its own; with COLLECT, in a later call, it is waited for and its results are taken.
site_run() {
    local run=("$PYTHON" -m "benchmarks.$1" "${@:2}" --data "$scratch/data")
    if [[ -n ${DETACHED:-} ]]; then
        step start 5 bash -c 'setsid nohup "$@" > "$0/log.txt" 2>&1 < /dev/null & echo "$!" > "$0/pid"' "$scratch" \
            "${run[@]}" --output "$scratch/out"
    elif [[ -n ${COLLECT:-} ]]; then
        step wait $((${LIMIT:-590} - SECONDS - 20)) bash -c 'tail -n +1 -f --pid "$(cat "$0/pid")" "$0/log.txt"' "$scratch"
        step take 10 cp -r "$scratch/out/." "$OUT"
    else
        step run 585 "${run[@]}" --seconds $((${LIMIT:-590} - SECONDS - 40)) --output "$OUT"
    fi
}

# starts SECONDS OPTION...: `kernels serve` with the options, first with empty caches (step `cold`), then with those that
# it has filled (`warm`). Each prints the line of the start with its phases, the seconds from then until every pass is
# captured, and how many kernels the caches have.
starts() {
    local caches=$scratch/starts most=$1 program='
        "$0" -m kernels serve --port 18431 "${@:3}" 2> "$1/log" & server=$!
        trap "kill $server; wait $server; tail -n 5 $1/log" EXIT
        until grep "^start {" "$1/log"; do kill -0 $server || { cat "$1/log"; exit 1; }; sleep 0.2; done
        "$0" -c "$2"
        echo "kernels in the caches: $(find "$1" -name "*.cubin" | wc -l)"'
    local captured='
import re, time, urllib.request
began, left = time.monotonic(), 1.0
while left:
    time.sleep(0.2)
    metrics = urllib.request.urlopen("http://localhost:18431/metrics").read().decode()
    left = float(re.search(r"^serve_graphs_left (.*)$", metrics, re.M)[1])
print(f"all passes captured {time.monotonic() - began:.1f} s after that")'
    shift
    if [[ -z $DRY_RUN ]]; then rm -rf "$caches" && mkdir -p "$caches"; fi
    for name in cold warm; do
        step "$name" "$most" env -u KERNELS_PREBUILT KERNELS_CACHE="$caches/kernels" TRITON_CACHE_DIR="$caches/triton" \
            bash -c "$program" "$PYTHON" "$caches" "$captured" "$@"
    done
}

# keep NAME FOLDER: the folder as OUT/NAME.tar.xz.
keep() {
    if [[ -n $DRY_RUN || ! -d $2 ]]; then return; fi
    tar -C "$(dirname "$2")" -c "$(basename "$2")" | xz -T0 > "$OUT/$1.tar.xz"
}

# The last line of a script: what failed, and the status.
finish() {
    if [[ -n $DRY_RUN ]]; then return; fi
    echo "== $script took $SECONDS s; ${#failed[@]} steps failed: ${failed[*]:-none}" | tee -a "$OUT/log.txt"
    ls -l "$OUT"
    ((${#failed[@]} == 0))
}
