"""What a model of another kind than a decoder is refused for, before anything of it is measured."""

import pytest

from tests.workers.conftest import stage_input
from tests.workers.stages.kinds import BERT, CLIP, IMAGES, LLAVA, documents
from workers.harness.context import Context, StageError
from workers.stages import admit


def test_what_cannot_be_fed_is_refused_at_admission(tmp_path):
    wav2vec2 = {"model_type": "wav2vec2", "architectures": ["Wav2Vec2ForCTC"], "dtype": "float32"}
    wav2vec2 |= {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 64}
    refused = [
        (wav2vec2, "takes input_values, which the workbench cannot make up"),
        (CLIP | {"architectures": []}, "alone"),
    ]
    for config, said in [*refused, *((each, "answers images and text together") for each in (CLIP, LLAVA))]:
        with pytest.raises(StageError, match=said) as caught:
            admit.run(documents("admit", config), Context(tmp_path, tmp_path, seconds=20))
        assert caught.value.failure.refused


def test_a_request_longer_than_roberta_takes_is_refused_at_admission(tmp_path):
    roberta = BERT | {"model_type": "roberta", "architectures": ["RobertaModel"]}
    too_long = documents("admit", roberta, traffic={"prompt_tokens": 63, "batch": 2})
    with pytest.raises(StageError) as caught:
        admit.run(too_long, Context(tmp_path, tmp_path, seconds=20))
    assert caught.value.failure.refused
    assert caught.value.failure.sentence == (
        "A request has 63 tokens, more than the 62 tokens that the model's configuration allows: the first 2 of its 64 "
        "positions are kept for padding."
    )


def test_vllm_is_no_baseline_of_a_model_that_generates_no_text(tmp_path):
    vllm = documents("admit", IMAGES, baseline_runner="vllm", load={"most_users": 4})
    with pytest.raises(StageError, match="generates no text; vllm is a baseline for models that do") as caught:
        admit.run(vllm, Context(tmp_path, tmp_path, seconds=20))
    assert caught.value.failure.refused
    assert caught.value.failure.field == "baseline_runner"


def test_after_is_vllm_only_where_the_plug_in_runs_the_model(tmp_path):
    named = {"baseline_runner": "vllm", "after_runner": "vllm", "load": {"most_users": 4}}
    workload, book = stage_input("admit", **named).workload, stage_input("admit").prices
    llama = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 4096}
    admit.check_workload(workload, "decoder", llama, "h200", book)
    for config, gpu_class, why in (
        (llama, "h200x2", "the plug-in runs on h100 and h200, and not h200x2"),
        (llama | {"architectures": ["Gemma2ForCausalLM"]}, "h200", "within vLLM, and not Gemma2ForCausalLM"),
    ):
        with pytest.raises(StageError, match=why) as caught:
            admit.check_workload(workload, "decoder", config, gpu_class, book)
        assert caught.value.failure.field == "after_runner"


def test_a_promise_in_another_unit_is_refused(tmp_path):
    promised = [{"metric": "throughput", "limit": 1, "unit": "tokens/s"}]
    with pytest.raises(ValueError, match="images/s, not tokens/s"):
        documents("admit", IMAGES, objectives=promised)
