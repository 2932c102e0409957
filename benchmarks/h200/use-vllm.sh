# Sourced: sets VLLM_PYTHON and the workers' WORKER_VLLM from VLLM, a folder with vLLM, and `beside`, the option of
# `bench serve`; empty where VLLM is not set.
#
#   VLLM         an environment, VLLM/bin/python, such as `python3.12 -m venv` and `pip install vllm` make; or a folder of
#                archives NAME.tar.xz of packages, with their sums in SHA256, for a machine without network. The archives
#                may come in several calls: they are gathered, and unpacked once all are there
#   VLLM_FOLDER  where they are unpacked (default /tmp/vllm); it then stands for an environment

VLLM_PYTHON=
VLLM_FOLDER=${VLLM_FOLDER:-/tmp/vllm}

_unpacked() {
    local archive
    rm -rf "$VLLM_FOLDER/site"
    mkdir -p "$VLLM_FOLDER/site" "$VLLM_FOLDER/bin"
    for archive in "$VLLM_FOLDER"/parts/*.tar.xz; do tar -C "$VLLM_FOLDER/site" -xJf "$archive" & done
    wait
    # The CUDA libraries are those of torch's packages.
    local python libraries
    python=$(python3 -c 'import sys; print(sys.executable)')
    libraries=$(env -u PYTHONPATH "$python" -c '
import glob, os, sysconfig
folder = os.path.join(sysconfig.get_paths()["purelib"], "nvidia")
print(":".join(sorted({os.path.dirname(each) for each in glob.glob(folder + "/*/lib/*.so*")})))')
    {
        echo '#!/bin/sh'
        echo "export PYTHONPYCACHEPREFIX=${PYTHONPYCACHEPREFIX:-}"
        echo "export PYTHONPATH=$VLLM_FOLDER/site LD_LIBRARY_PATH=\${LD_LIBRARY_PATH:+\$LD_LIBRARY_PATH:}$libraries"
        echo 'export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 TOKENIZERS_PARALLELISM=false'
        echo 'export VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_USE_DEEP_GEMM=0 VLLM_HOST_IP=127.0.0.1'
        echo 'export GLOO_SOCKET_IFNAME=lo NCCL_SOCKET_IFNAME=lo'
        echo "exec $python \"\$@\""
    } > "$VLLM_FOLDER/bin/python"
    chmod +x "$VLLM_FOLDER/bin/python"
    "$VLLM_FOLDER/bin/python" -m compileall -q -j 0 "$VLLM_FOLDER/site" > /dev/null || true  # as use-site.sh does
    # vLLM imports xgrammar, whose compiled part may not have been packed; plain text needs none of it.
    if ! "$VLLM_FOLDER/bin/python" -c 'import xgrammar' 2> /dev/null; then
        rm -rf "$VLLM_FOLDER/site/xgrammar"
        mkdir "$VLLM_FOLDER/site/xgrammar"
        printf 'def __getattr__(name):\n    if name.startswith("__"):\n        raise AttributeError(name)\n    return type(name, (), {})\n' \
            | tee "$VLLM_FOLDER/site/xgrammar/__init__.py" > "$VLLM_FOLDER/site/xgrammar/structural_tag.py"
    fi
}

if [[ -n ${VLLM:-} && -z ${DRY_RUN:-} ]]; then
    if compgen -G "$VLLM/*.tar.xz" > /dev/null && [[ ! -x $VLLM_FOLDER/bin/python ]]; then
        mkdir -p "$VLLM_FOLDER/parts"
        cp "$VLLM"/*.tar.xz "$VLLM/SHA256" "$VLLM_FOLDER/parts/"
        if (cd "$VLLM_FOLDER/parts" && sha256sum --check --quiet SHA256 2> /dev/null); then _unpacked; fi
    fi
    for _folder in "$VLLM" "$VLLM_FOLDER"; do
        if [[ -z $VLLM_PYTHON && -x $_folder/bin/python ]]; then VLLM_PYTHON=$_folder/bin/python; fi
    done
    if [[ -z $VLLM_PYTHON ]]; then
        echo "VLLM: $VLLM has no bin/python, and not every archive that its SHA256 names has come" >&2
    fi
elif [[ -n ${VLLM:-} ]]; then
    VLLM_PYTHON=$VLLM/bin/python
fi
export VLLM_PYTHON
if [[ -n $VLLM_PYTHON ]]; then WORKER_VLLM=$(dirname "$(dirname "$VLLM_PYTHON")"); export WORKER_VLLM; fi
beside=(${VLLM_PYTHON:+--vllm "$VLLM_PYTHON"})
