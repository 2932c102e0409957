"""Workloads by API and by form: the same document, the same sentences, nothing kept of what is refused."""

import json
from typing import Any

import pytest

from tests.workbench.intake.conftest import upload_model
from tests.workbench.intake.workload_documents import GOOD, fields, post, shown_errors
from workbench.intake.models import Model, Workload
from workbench.runs.models import Run
from workers.documents.traffic import Traffic


def test_the_document_comes_back_with_every_default_and_its_model_has_a_row(api, engineer):
    client = api(engineer)
    names = {entry["name"]: entry for entry in client.get("/api/v1/catalogue").json()}
    assert {"llama-3.2-1b", "qwen2.5-1.5b", "llama-3.1-8b"} <= set(names)
    assert names["llama-3.2-1b"]["kind"] == "decoder"
    answer = post(client, GOOD)
    assert answer.status_code == 201
    document = answer.json()["document"]
    stated = {"prompt_tokens": 128, "output_tokens": 64, "batch": 1, "concurrency": 1}
    assert document["traffic"] == Traffic(**stated).model_dump(mode="json")
    assert stated.items() <= document["traffic"].items()
    assert document["objectives"][0]["unit"] == "ms"
    assert answer.json()["name"] == "llama-3.2-1b, TTF64 p50"
    assert client.get(f"/api/v1/workloads/{answer.json()['id']}").json() == answer.json()
    assert client.get("/api/v1/workloads").json()["items"] == [answer.json()]
    assert not Run.objects.exists()
    assert post(client, GOOD).json()["model"] == answer.json()["model"]
    model = Model.objects.get()
    assert (model.facts.generated, [file.path for file in model.facts.files]) == (True, ["config.json"])


def _promises(**objective: Any) -> dict[str, Any]:
    return {"objectives": [objective]}


FIRST = "objectives[0]"
SEVENTY = {"model": "llama-3.1-70b", "baseline_runner": "compiled", **_promises(metric="tpot", limit=50)}
LARGE = {"model": "llama-3.1-8b", "traffic": {"batch": 1024, "prompt_tokens": 4096}}
SOON = _promises(metric="ttft", limit=0.1)
BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "no limit": (_promises(metric="ttft", percentile=50), f"{FIRST}.limit", "is required"),
    "limit and ratio": (_promises(metric="ttft", limit=5, at_least_faster=2), f"{FIRST}.limit", "not both"),
    "ratio of p99": (_promises(metric="ttft", percentile=99, at_least_faster=2), f"{FIRST}.percentile", "by medians"),
    "ratio of a cost": (
        _promises(metric="cost_per_mtok", at_least_faster=2),
        f"{FIRST}.at_least_faster",
        "a cost is promised by a limit",
    ),
    "no objective": ({"objectives": []}, "objectives", "at least 1 item"),
    "no n": (_promises(metric="ttf_n", percentile=50, limit=1), f"{FIRST}.n", "ttf_n needs n"),
    "no token to wait for": (
        {"traffic": {"output_tokens": 1}, **_promises(metric="itl", percentile=50, limit=5)},
        f"{FIRST}.metric",
        "an answer has 1 (traffic.output_tokens)",
    ),
    "too long": ({"traffic": {"prompt_tokens": 131072}}, "traffic.prompt_tokens", "131,072 positions"),
    "unknown model": ({"model": "nonesuch"}, "model", "there is no model 'nonesuch'"),
    "too large": (LARGE | {"constraints": {"gpu_classes": ["l40s", "h200"]}}, "model", "h200, has 131.3 GiB"),
    "compiled on one GPU alone": (
        SEVENTY | {"constraints": {"gpu_classes": ["h200", "h200x2"], "precisions": ["bf16"]}},
        "baseline_runner",
        "torch.compile runs a model on one GPU",
    ),
    "impossible": (
        SOON | {"constraints": {"gpu_classes": ["h100", "h200"]}},
        f"{FIRST}.limit",
        "impossible on NVIDIA H200: it takes at least 0.516 ms in bf16",
    ),
    "misspelt variant": (
        {"constraints": {"exclude": ["kernels", "Mega-Kernel"]}},
        "constraints.exclude[1]",
        "did you mean megakernel",
    ),
    "baseline excluded": ({"constraints": {"exclude": ["eager"]}}, "constraints.exclude[0]", "eager is what runs"),
    "vllm without load": ({"baseline_runner": "vllm"}, "baseline_runner", "(load.most_users), or name another"),
    "vllm after it alone": ({"after_runner": "vllm"}, "after_runner", "beside vllm without it; name vllm as"),
    "name of spaces": ({"name": "   "}, "name", "spaces alone are not enough"),
}


@pytest.mark.parametrize("case", BAD)
def test_form_and_api_refuse_with_the_same_words(api, browser, engineer, case):
    change, field, reason = BAD[case]
    answer = post(api(engineer), GOOD | change)
    assert answer.status_code == 422
    text = {error["field"]: error["reason"] for error in answer.json()["errors"]}
    assert reason in text[field]
    page = browser(engineer).post("/workloads/new/", fields(GOOD | change))
    assert page.status_code == 422
    assert text[field] in shown_errors(page.content.decode())
    assert not any(value.objects.exists() for value in (Workload, Model, Run))


def test_an_encoder_is_not_promised_tokens(api, engineer):
    config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 32, "intermediate_size": 64}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 10}
    digest = upload_model(api(engineer), {"config.json": json.dumps(config).encode()}).json()["digest"]
    refused = post(api(engineer), GOOD | {"model": digest})
    assert refused.json()["errors"][0]["field"] == "objectives[0].metric"
    taken = {"model": digest, "objectives": [{"metric": "batch_latency", "limit": 5}], "traffic": {"prompt_tokens": 16}}
    assert post(api(engineer), taken).status_code == 201
    promise = {"metric": "throughput", "limit": 5}
    taken = post(api(engineer), taken | {"objectives": [promise]}).json()
    assert taken["document"]["objectives"][0]["unit"] == "embeddings/s"
    refused = post(api(engineer), {"model": digest, "objectives": [promise | {"unit": "tokens/s"}]} | {"traffic": {}})
    detail = "objectives[0].unit: throughput of this model is measured in embeddings/s, not tokens/s"
    assert refused.json()["detail"].startswith(detail)


def test_a_digest_names_the_newest_model_and_a_content_digest_one(api, browser, engineer, model_files):
    client = api(engineer)
    old, new = (upload_model(client, model_files | {"README.md": text}).json() for text in (b"old", b"new"))
    assert old["digest"] == new["digest"]
    assert old["content_digest"] != new["content_digest"]
    named = {(model["id"], key): model[key] for model in (old, new) for key in ("digest", "content_digest")}
    taken = {where: post(client, GOOD | {"model": name}).json() for where, name in named.items()}
    assert {where: workload["model"]["id"] for where, workload in taken.items()} == {
        (old["id"], "digest"): new["id"],
        (new["id"], "digest"): new["id"],
        (old["id"], "content_digest"): old["id"],
        (new["id"], "content_digest"): new["id"],
    }
    refused = post(client, GOOD | {"model": new["name"]}).json()["detail"]
    assert (
        refused == f"model: give the digest of your model {new['name']!r} in place of its name: {new['content_digest']}"
    )
    for workload in taken.values():
        page = browser(engineer).get(f"/workloads/new/?from={workload['id']}").content.decode()
        own = old if workload["model"]["id"] == old["id"] else new
        assert f'<option value="{own["content_digest"]}" selected>' in page


def test_pages_show_what_is_there_to_those_who_may_read(api, browser, engineer, account, model_files):
    client = browser(engineer)
    assert "what you promise your users" in client.get("/workloads/").content.decode()
    model = upload_model(api(engineer), model_files).json()
    workload = post(api(engineer), GOOD | {"model": model["digest"], "name": "Calls"}).json()
    assert "Calls" in client.get("/workloads/").content.decode()
    assert "TTF64 p50" in client.get(f"/workloads/{workload['id']}/").content.decode()
    models = client.get("/models/").content.decode()
    assert ("LlamaForCausalLM" in models, "1,000 million" in models) == (True, False)
    page = client.get(f"/models/{model['id']}/").content.decode()
    for fact in (model["digest"], "<dt>Layers</dt>", "<dt>Vocabulary</dt>", "<dt>Hidden size</dt>"):
        assert fact in page
    assert 'id="upload-files"' in client.get("/models/upload/").content.decode()
    assert client.get("/").headers["Location"] == "/workloads/"
    assert post(api(account), GOOD).status_code == 403
    addresses = ("/workloads/", "/workloads/new/", "/models/upload/")
    assert [browser(account).get(address).status_code for address in addresses] == [200, 403, 403]


def test_workloads_and_models_of_others_cannot_be_named(api, browser, engineer, foreigner):
    workload = post(api(engineer), GOOD).json()
    other = browser(foreigner)
    assert other.get(f"/workloads/new/?from={workload['id']}").status_code == 404
    assert post(api(foreigner), GOOD | {"model": workload["model"]["digest"]}).status_code == 422
    assert "llama-3.2-1b, TTF64" not in other.get("/workloads/").content.decode()


def test_a_manifest_that_no_longer_validates_is_one_sentence(browser, api, engineer):
    workload = post(api(engineer), GOOD).json()
    model = Model.objects.get()
    model.manifest["parameters"] = "many"
    model.save()
    text = "This version cannot read the stored manifest of llama-3.2-1b: parameters"
    client = browser(engineer)
    assert text in client.get(f"/models/{model.id}/").content.decode()
    assert client.get("/models/").status_code == 200
    (row,) = api(engineer).get("/api/v1/models").json()["items"]
    assert (row["kind"], row["digest"]) == (None, model.digest)
    assert row["unreadable"].startswith(text)
    run = api(engineer).post("/api/v1/runs", {"workload": workload["id"]})
    assert (run.status_code, text in run.json()["detail"]) == (422, True)
    assert client.post(f"/workloads/{workload['id']}/run/", follow=True).status_code == 200
    assert post(api(engineer), GOOD).status_code == 201
    model.refresh_from_db()
    assert model.reading[1] == ""


def test_one_unreadable_workload_does_not_take_the_others_along(browser, api, engineer):
    for name in ("broken", "whole"):
        assert post(api(engineer), GOOD | {"name": name}).status_code == 201
    broken = Workload.objects.get(name="broken")
    broken.document["objectives"][0]["metric"] = "bogomips"
    broken.save()
    text = "This version cannot read the stored workload: objectives[0].metric"
    client = browser(engineer)
    page = client.get("/workloads/").content.decode()
    own = client.get(f"/workloads/{broken.id}/").content.decode()
    assert all(words in page for words in (text, "whole"))
    assert all(words in own for words in (text, "bogomips"))
    rows = {row["name"]: row for row in api(engineer).get("/api/v1/workloads").json()["items"]}
    assert (rows["broken"]["document"], rows["whole"]["unreadable"]) == (None, "")
    assert text in rows["broken"]["unreadable"]
    assert api(engineer).get(f"/api/v1/workloads/{broken.id}").status_code == 200
    refused = api(engineer).post("/api/v1/runs", {"workload": str(broken.id)})
    assert (refused.status_code, text in refused.json()["detail"]) == (422, True)
    assert client.post(f"/workloads/{broken.id}/run/", follow=True).status_code == 200
    assert client.get(f"/workloads/new/?from={broken.id}").status_code == 200
