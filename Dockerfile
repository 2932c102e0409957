# One image for every process of the workbench; FLAVOUR says which torch: cpu (web, ledger, CPU worker) or gpu.
#   docker build --build-arg FLAVOUR=cpu -t kernel-workbench:cpu .
#   docker build --build-arg FLAVOUR=gpu -t kernel-workbench:gpu .
FROM python:3.12-slim-bookworm

ARG FLAVOUR=cpu
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

# Inductor and Triton compile with the system's compiler when a stage runs.
# PACKAGES="chromium fonts-dejavu-core" lets the web server make PDF files of reports.
ARG PACKAGES=""
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc g++ libc6-dev ${PACKAGES} \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /app
COPY constraints/${FLAVOUR}.txt constraints/hashes-${FLAVOUR}.txt constraints/
# torch's CPU build lies in an index of its own; everything else is held to its hash.
RUN if [ "$FLAVOUR" = cpu ]; then \
        pip install --no-deps --extra-index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' constraints/cpu.txt)"; \
    fi \
    && pip install --no-deps --require-hashes -r constraints/hashes-${FLAVOUR}.txt

COPY pyproject.toml README.md LICENSE manage.py ./
COPY kernels kernels
COPY workers workers
COPY workbench workbench
COPY templates templates
COPY docs/kernels docs/kernels
COPY docs/method.md docs/
COPY samples/voice-agent samples/voice-agent
COPY benchmarks/results/h200/llama-3.2-1b.json benchmarks/results/h200/
# Compiled here: the users that processes and stages run as cannot write beside the sources.
RUN pip install --no-deps --no-build-isolation --editable . \
    && python -m compileall -q kernels workers workbench \
    && useradd --create-home --uid 10001 workbench \
    && install -d -m 700 -o workbench -g workbench /data

# CUDA kernels of models that are often asked for, compiled without a GPU: docs/operations.md.
ARG PREBUILT_MODELS="llama-3.2-1b qwen2.5-1.5b"
RUN if [ "$FLAVOUR" = gpu ] && [ -n "$PREBUILT_MODELS" ]; then \
        python -m kernels compile --into /opt/prebuilt --jobs "$(nproc)" $(printf -- '--model %s ' $PREBUILT_MODELS); \
    fi
ENV KERNELS_PREBUILT=/opt/prebuilt

USER workbench
ENV WORKBENCH_DATA=/data
VOLUME /data
ENV GUNICORN_CMD_ARGS="--worker-class workbench.serving.worker.BufferingWorker --workers 2 --threads 8 \
--timeout 120 --graceful-timeout 20 --no-control-socket"
EXPOSE 8000 8001
CMD ["gunicorn", "workbench.wsgi", "--bind", "0.0.0.0:8000"]
