"""The output of a pass that is compared holds all that a model answers with."""

import pytest
import torch

from kernels import runners

ANSWERS = {
    "model_type": "bert",
    "architectures": ["BertForQuestionAnswering"],
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 300,
    "max_position_embeddings": 64,
}


@torch.no_grad()
@pytest.mark.parametrize("call", ["logits", "encode"])
def test_an_answer_to_a_question_has_a_start_and_an_end(call):
    model = runners.load(None, ANSWERS, generated=True, dtype="fp32", device="cpu")
    runner, ids = runners.runner("eager", model), torch.arange(32).reshape(2, 16)
    found = runner.logits(ids) if call == "logits" else runner.encode(ids).output
    assert found is not None
    expected = model(input_ids=ids)
    assert found.shape == (2, 2, 16)
    assert torch.equal(found[:, 0], expected.start_logits)
    assert torch.equal(found[:, 1], expected.end_logits)
