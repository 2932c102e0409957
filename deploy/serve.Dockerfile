# The server of a model or a plan alone: kernels/ without Django, Celery and the workbench.
#   docker build --file deploy/serve.Dockerfile --build-arg FLAVOUR=gpu -t kernel-workbench-serve:gpu .
# FLAVOUR says which torch: gpu (CUDA 13) or cpu. Versions are those of constraints/.
FROM python:3.12-slim-bookworm

ARG FLAVOUR=gpu
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

# Triton compiles its launchers with the system's compiler.
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /app
COPY constraints/${FLAVOUR}.txt constraints/
COPY pyproject.toml README.md LICENSE ./
COPY kernels kernels
RUN if [ "$FLAVOUR" = cpu ]; then index="--extra-index-url https://download.pytorch.org/whl/cpu" extras=serve; \
    else index="" extras=serve,gpu; fi \
    && pip install $index --constraint constraints/${FLAVOUR}.txt ".[$extras]" \
    && useradd --create-home --uid 10001 serve \
    && install -d -m 700 -o serve -g serve /cache

# CUDA kernels of models that are often served, compiled without a GPU: docs/operations.md.
ARG PREBUILT_MODELS="llama-3.2-1b qwen2.5-1.5b"
RUN if [ "$FLAVOUR" = gpu ] && [ -n "$PREBUILT_MODELS" ]; then \
        python -m kernels compile --into /opt/prebuilt --jobs "$(nproc)" $(printf -- '--model %s ' $PREBUILT_MODELS); \
    fi

USER serve
ENV KERNELS_PREBUILT=/opt/prebuilt KERNELS_CACHE=/cache/kernels TRITON_CACHE_DIR=/cache/triton HF_HUB_OFFLINE=1
VOLUME /cache
EXPOSE 8080
ENTRYPOINT ["python", "-m", "kernels", "serve", "--host", "0.0.0.0", "--port", "8080"]
CMD ["--model", "/model"]
