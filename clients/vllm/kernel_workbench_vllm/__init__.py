"""A plan of the kernel workbench within vLLM. Without `KERNELS_PLAN` it changes nothing, and imports nothing."""

import os

PLAN = "KERNELS_PLAN"
"""The environment variable that names plan.json."""


def register() -> None:
    """vLLM calls this in each of its processes, before it makes a model."""
    if os.environ.get(PLAN):
        from kernel_workbench_vllm.vllm_interface import register_models

        register_models()
