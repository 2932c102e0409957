"""Workloads of models that generate no text: what is refused."""

from tests.workbench.intake.workload_documents import Clients, post
from workbench.accounts.models import User

EMBEDDER = {
    "model": "tiny-bert",
    "traffic": {"prompt_tokens": 16},
    "objectives": [{"metric": "batch_latency", "limit": 100}],
}


def test_vllm_is_no_baseline(api: Clients, engineer: User) -> None:
    answer = post(api(engineer), EMBEDDER | {"baseline_runner": "vllm", "load": {"most_users": 4}})
    assert answer.status_code == 422
    assert {error["field"]: error["reason"] for error in answer.json()["errors"]} == {
        "baseline_runner": "tiny-bert generates no text; vllm is a baseline for models that do; take eager or compiled"
    }


def test_after_is_vllm_only_of_models_that_the_plug_in_runs(api: Clients, engineer: User) -> None:
    in_vllm = {"baseline_runner": "vllm", "after_runner": "vllm", "load": {"most_users": 4}}
    promise = {"objectives": [{"metric": "ttft", "limit": 100}]}
    answer = post(api(engineer), promise | in_vllm | {"model": "tiny-qwen3"})
    assert answer.json()["errors"][0] | {"file": ""} == {
        "file": "",
        "field": "after_runner",
        "reason": "the plug-in runs LlamaForCausalLM and Qwen2ForCausalLM within vLLM, and not Qwen3ForCausalLM",
    }
    assert post(api(engineer), promise | in_vllm | {"model": "tiny-llama"}).status_code == 201
