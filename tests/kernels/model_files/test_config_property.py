"""Any JSON in a configuration or an index is taken or refused with a sentence, never a crash."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.model_files import ModelFacts, ModelRefused, inspect, inspect_config, kv_bytes_per_token, needed_bytes
from tests.kernels.model_folders import LLAMA

CONFIG: dict[str, Any] = LLAMA | {
    "head_dim": 8, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "text_config": {"hidden_size": 8},
    "type_vocab_size": 2, "n_inner": None, "is_encoder_decoder": False, "num_experts": 4, "moe_intermediate_size": 32,
    "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(CONFIG)), inner, max_size=3),
    max_leaves=6,
)
changes = st.dictionaries(st.sampled_from(sorted(CONFIG)), anything, max_size=4)
types = st.sampled_from(["llama", "gpt2", "bert", "gemma2", "phi3", "mixtral", "qwen3_moe", "olmoe", "t5", "vit"])


def taken(check: Callable[[], ModelFacts]) -> ModelFacts | None:
    """The facts, or None when the model was refused; anything else that is raised fails the test."""
    try:
        return check()
    except ModelRefused:
        return None


@given(types, changes, st.sets(st.sampled_from(sorted(CONFIG)), max_size=3))
@settings(max_examples=300, deadline=None)
def test_any_configuration_is_taken_or_refused(model_type: str, change: dict[str, Any], missing: set[str]) -> None:
    config = CONFIG | {"model_type": model_type, "architectures": None} | change
    config = {name: value for name, value in config.items() if name not in missing}
    facts = taken(lambda: inspect_config(config))
    if facts is not None:
        assert facts.parameters >= 0
        assert kv_bytes_per_token(config) >= 0
        assert needed_bytes(config, facts.parameters, bytes_per_element=2, batch=1, prompt=8, output=8) > 0


@given(anything)
@settings(max_examples=100, deadline=None)
def test_any_index_is_taken_or_refused(weight_map: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps(CONFIG | {"text_config": None}))
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        facts = taken(lambda: inspect(folder))
    assert (facts is not None) == (weight_map == {})
