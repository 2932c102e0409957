# Sourced on a GPU machine without network: unpacks what site.sh and caches.sh packed, and makes the site's commands.
#
#   SITE          the archive (default .carry/site.tar.xz); it need be there once only, the folder stays
#   SITE_FOLDER   where it is unpacked (default /tmp/site)
#   PREBUILT      the archive of compiled kernels (default .carry/kernels-cache.tar.xz), unpacked each time it is there
#   KERNELS_PREBUILT   where it is unpacked (default /tmp/kernels-prebuilt), and what the library reads
#   BYTECODE      where the bytecode of all Python files goes (default /tmp/bytecode)
#
# Predicted: 12 s, and nothing the second time. Without archive and folder it changes nothing but CC and CXX.

SITE=${SITE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.carry/site.tar.xz}
SITE_FOLDER=${SITE_FOLDER:-/tmp/site}
BYTECODE=${BYTECODE:-/tmp/bytecode}

if [[ ! -e $SITE_FOLDER/.complete && -f $SITE ]]; then
    mkdir -p "$SITE_FOLDER"
    tar -C "$SITE_FOLDER" --strip-components=1 -xJf "$SITE"
    touch "$SITE_FOLDER/.complete"
    # Stages of a run cannot write bytecode, and the machine's own packages may come without: docs/operations.md.
    mapfile -t _folders < <(python3 -c 'import os, sys; print(*filter(os.path.isdir, sys.path[1:]), sep="\n")')
    (cd "$(dirname "${BASH_SOURCE[0]}")/../.." && PYTHONPYCACHEPREFIX=$BYTECODE python3 -m compileall -q -j 0 \
        "$SITE_FOLDER" kernels workers workbench benchmarks "${_folders[@]}") > /dev/null || true
fi
if [[ -e $SITE_FOLDER/.complete ]]; then
    export PYTHONPYCACHEPREFIX=$BYTECODE
    export PYTHONPATH=$SITE_FOLDER${PYTHONPATH:+:$PYTHONPATH}
    # Beside Python, where samples/demo.py looks for them; else in a folder of the PATH.
    _python=$(python3 -c 'import sys; print(sys.executable)')
    _bin=$(dirname "$_python")
    if [[ ! -w $_bin ]]; then
        _bin=$SITE_FOLDER/bin
        mkdir -p "$_bin"
        export PATH=$_bin:$PATH
    fi
    for _name in workbench gunicorn celery; do
        _start="-m $_name"
        if [[ $_name == workbench ]]; then _start="-c 'from workbench.cli import app; app(prog_name=\"workbench\")'"; fi
        printf '#!/bin/sh\nexec %s %s "$@"\n' "$_python" "$_start" > "$_bin/$_name"
        chmod +x "$_bin/$_name"
    done
fi

export KERNELS_PREBUILT=${KERNELS_PREBUILT:-/tmp/kernels-prebuilt}
PREBUILT=${PREBUILT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.carry/kernels-cache.tar.xz}
if [[ -f $PREBUILT ]]; then
    mkdir -p "$KERNELS_PREBUILT"
    tar -C "$KERNELS_PREBUILT" -xJf "$PREBUILT"
fi

# A C compiler for Inductor and Triton; some machines keep it outside the PATH.
for _pair in CC:gcc CXX:g++; do
    _variable=${_pair%%:*}
    if [[ -z ${!_variable:-} ]]; then
        for _found in "$(command -v "${_pair##*:}" || true)" /opt/*/bin/"${_pair##*:}"; do
            if [[ -x $_found ]]; then
                export "$_variable=$_found"
                break
            fi
        done
    fi
done
