"""Workloads of models that generate no text: what is refused, and what their page says."""

from collections.abc import Callable

from django.test import Client

from tests.workbench.intake.workload_documents import Clients, post
from workbench.accounts.models import User
from workbench.intake.models import Model

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
    asked = {"baseline_runner": "vllm", "after_runner": "vllm", "load": {"most_users": 4}}
    promise = {"objectives": [{"metric": "ttft", "limit": 100}]}
    answer = post(api(engineer), promise | asked | {"model": "tiny-qwen3"})
    assert answer.json()["errors"][0] | {"file": ""} == {
        "file": "",
        "field": "after_runner",
        "reason": "the plug-in runs LlamaForCausalLM and Qwen2ForCausalLM within vLLM, and not Qwen3ForCausalLM",
    }
    assert post(api(engineer), promise | asked | {"model": "tiny-llama"}).status_code == 201


def test_the_present_throughput_counts_what_the_model_gives(
    api: Clients, browser: Callable[[User], Client], engineer: User
) -> None:
    present = {"metric": "batch_latency", "latency_ms": 9, "gpu": "L4", "usd_per_hour": 0.8, "tokens_per_second": 250}
    workload = post(api(engineer), EMBEDDER | {"present": present}).json()
    model = Model.objects.get()
    model.manifest = model.manifest | {"counted": "embeddings"}
    model.save()
    page = browser(engineer).get(f"/workloads/{workload['id']}/").content.decode()
    assert "<dd>250 embeddings/s</dd>" in page
