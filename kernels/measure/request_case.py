"""A request of a model as a case, from its configuration alone, so that it has a floor before anything runs."""

from typing import Any

from kernels.measure.roofline import CACHED_BYTES
from kernels.model_files.config import value
from kernels.model_files.families import FAMILIES, expert_sizes, head_shape, is_tied, unchosen_parameters
from kernels.model_files.memory import kv_bytes_per_token
from kernels.ops import BYTES, ModelCase, Weights
from kernels.ops.model import last_only


def why_uncounted(config: dict[str, Any]) -> str:
    """Why the parameters that multiply a token are not known, as words behind "of"; "" where they are."""
    if unchosen_parameters(config) is None:
        return "a mixture of experts"
    if config.get("model_type", "") not in FAMILIES:
        return f"the family {config.get('model_type') or 'without a name'}, whose tensors are not known one by one"
    return ""


def why_unbounded(config: dict[str, Any], parameters: int, weights: Weights) -> str:
    """What keeps a configuration from bounding its requests' time, as words behind "of"; "" where nothing does."""
    size = multiplied_parameters(config, parameters) * BYTES[weights]
    return why_uncounted(config) or why_cached(size)


def why_cached(weight_bytes: float) -> str:
    """That the memory's bandwidth does not bound such weights, as words behind "of"; "" where it does."""
    if weight_bytes >= CACHED_BYTES:
        return ""
    mb = weight_bytes / 1e6
    return f"{mb:,.3g} MB of weights: under {CACHED_BYTES / 1e6:.0f} MB a GPU's cache may hold them"


def multiplied_parameters(config: dict[str, Any], parameters: int) -> int:
    """The parameters that a token is multiplied by: all but an embedding that is only looked up, and other experts."""
    vocabulary, hidden = head_shape(config)
    return parameters - (0 if is_tied(config) else vocabulary * hidden) - (unchosen_parameters(config) or 0)


def request_case(
    config: dict[str, Any], parameters: int, weights: Weights, batch: int, prompt: int, tokens: int
) -> ModelCase | None:
    """A request of `batch` prompts of `prompt` tokens that generates `tokens` each, weights in a precision.

    As `kernels.model.model_case`, which asks the loaded model: every weight is read for every token, except an
    embedding that is only looked up and, of a mixture, the experts that one token does not have. None where the
    configuration does not bound the time: `why_unbounded` says why.
    """
    if why_unbounded(config, parameters, weights):
        return None
    vocabulary, hidden = head_shape(config)
    taken = multiplied_parameters(config, parameters)
    layers, experts = value(config, "layers"), expert_sizes(config)
    cache = batch * (prompt + tokens / 2) * kv_bytes_per_token(config, BYTES[weights])
    return ModelCase(
        model=str(config["model_type"]),
        weights=weights,
        batch=batch,
        prompt=prompt,
        tokens=tokens,
        parameters=taken,
        last_only=last_only(taken, vocabulary * hidden, layers) if layers else None,
        expert_parameters=experts and experts.of_one_token,
        bytes_per_token=taken * BYTES[weights] + cache,
    )
