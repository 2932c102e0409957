"""Models and runners for the tests that need a Hopper GPU."""

from typing import Any

from kernels import engine

PROMPT = 20


def models(config: dict[str, Any]) -> tuple[Any, Any]:
    """The bf16 model on the GPU and its float32 twin."""
    made = [engine.load(None, config, seed=0, generated=True, dtype=dtype, device="cuda") for dtype in ("bf16", "fp32")]
    return made[0], made[1]


def runner_of(model: Any, **options: Any) -> Any:
    return engine.runner("megakernel", model, options)
