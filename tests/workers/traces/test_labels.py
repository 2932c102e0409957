"""The names of a trace's operations: by the module and the function that called them."""

import pytest

from workers.traces.labels import TraceScope, label, tail_of


@pytest.mark.parametrize(
    ("scope", "operation", "expected"),
    [
        (TraceScope("unit", "rope"), "aten::cat", "rope"),
        (TraceScope("own", "self_attn", "LlamaAttention"), "aten::scaled_dot_product_attention", "attention"),
        (TraceScope("own", "self_attn", "LlamaAttention"), "matmul", "attention"),
        (TraceScope("own", "self_attn", "LlamaAttention"), "aten::contiguous", "attention layout"),
        (TraceScope("own", "layers", "LlamaDecoderLayer"), "__add__", "residual add"),
        (TraceScope("own", "layers", "LlamaDecoderLayer"), "aten::add_", "residual add"),
        (TraceScope("own", "output", "BertSelfOutput"), "aten::add", "residual add"),
        (TraceScope("own", "layer", "T5LayerSelfAttention"), "aten::add", "residual add"),
        (TraceScope("own", "SelfAttention", "T5Attention"), "aten::add", "SelfAttention (T5Attention) add"),
        (TraceScope("own", "mlp", "LlamaMLP"), "__rmul__", "gated activation"),
        (TraceScope("own", "mlp", "SlowMLP"), "aten::sort", "mlp (SlowMLP) sort"),
        (TraceScope("own", "experts", "Qwen3MoeExperts"), "aten::_grouped_mm", "experts"),
        (TraceScope("own", "experts", "MixtralExperts"), "aten::index", "routing"),
        (TraceScope("own", "experts", "OlmoeExperts"), "aten::mul", "gated activation"),
        (TraceScope("own", "gate", "MixtralTopKRouter"), "aten::linear", "linear router"),
        (TraceScope("own", "gate", "OlmoeTopKRouter"), "aten::softmax", "routing"),
        (TraceScope("own", "mlp", "Qwen3MoeSparseMoeBlock"), "aten::view", "routing"),
        (TraceScope("own", "mlp", "Qwen2MoeSparseMoeBlock"), "aten::add_", "routing"),
        (None, "aten::argmax", "sampling"),
        (None, "aten::cat", "token bookkeeping"),
        (None, "aten::svd", "unattributed"),
        (None, "", "unattributed"),
        (TraceScope("own", "model", "LlamaModel"), "aten::arange", "mask and positions"),
        (TraceScope("own", "model", "LlamaModel"), "aten::svd", "model (LlamaModel) svd"),
        (TraceScope("own", "model", "LlamaModel"), "", "unattributed"),
        (TraceScope("own", "mlp", "SlowMLP"), "", "mlp (SlowMLP) own kernel"),
    ],
)
def test_the_trace_and_the_shapes_pass_use_the_same_names(scope, operation, expected):
    assert label(scope, operation, "decode") == expected


def test_around_a_model_that_does_not_generate_there_are_no_tokens_and_paths_lose_layer_numbers():
    operations = {"aten::full": "input and output", "aten::argmax": "input and output", "aten::svd": "unattributed"}
    assert {operation: label(None, operation, "forward") for operation in operations} == operations
    paths = ("model.layers.3.self_attn.q_proj", "bert.encoder.layer.0.output.dense", "")
    assert [tail_of(path) for path in paths] == ["q_proj", "output.dense", "model"]
