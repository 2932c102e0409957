"""What a model decides: its baseline, the longest request, GGUF in place of a folder, and the text of quality."""

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils.html import escape

from tests.kernels.gguf_files import write_gguf
from tests.workbench.intake.conftest import announce, nothing_kept, upload_model
from tests.workbench.intake.workload_documents import GOOD, fields, post, shown_errors
from workbench.intake.models import Workload

EMBEDDER = {
    "model": "tiny-bert",
    "traffic": {"prompt_tokens": 16},
    "objectives": [{"metric": "batch_latency", "limit": 100}],
}


def test_runners_and_lengths_are_those_that_the_model_takes(api, engineer):
    answer = post(api(engineer), EMBEDDER | {"baseline_runner": "vllm", "load": {"most_users": 4}})
    detail = "baseline_runner: tiny-bert generates no text; vllm is a baseline for models that do"
    assert (answer.status_code, answer.json()["detail"].partition("; take")[0]) == (422, detail)
    in_vllm = {"baseline_runner": "vllm", "after_runner": "vllm", "load": {"most_users": 4}}
    promise = {"objectives": [{"metric": "ttft", "limit": 100}]}
    detail = post(api(engineer), promise | in_vllm | {"model": "tiny-gemma"}).json()["detail"]
    assert detail.startswith("after_runner: ")
    assert "and not Gemma" in detail
    assert post(api(engineer), promise | in_vllm | {"model": "tiny-llama"}).status_code == 201
    config = {"model_type": "roberta", "architectures": ["RobertaModel"], "hidden_size": 32, "intermediate_size": 64}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 10, "max_position_embeddings": 514}
    digest = upload_model(api(engineer), {"config.json": json.dumps(config).encode()}).json()["digest"]
    document = {"model": digest, "objectives": [{"metric": "batch_latency", "limit": 5}]}
    error = post(api(engineer), document | {"traffic": {"prompt_tokens": 513}}).json()["errors"][0]
    assert error["field"] == "traffic.prompt_tokens"
    assert error["reason"].startswith("513 tokens are more than the 512 positions that")
    assert error["reason"].endswith(" has: the first 2 of its 514 positions are kept for padding")
    assert post(api(engineer), document | {"traffic": {"prompt_tokens": 512}}).status_code == 201


SENTENCE = "Its weights are GGUF (Q8_0, F32): they are dequantised to bf16 before anything is measured."


def test_a_gguf_file_is_a_model_and_its_page_says_so(api, browser, engineer, tmp_path):
    content = write_gguf(tmp_path / "model.gguf").read_bytes()
    first = upload_model(api(engineer), {"tiny.Q8_0.gguf": content})
    assert first.status_code == 201
    document = first.json()
    assert (document["kind"], document["generated"], document["has_tokenizer"]) == ("decoder", False, True)
    assert document["weight_bytes"] == 2 * document["parameters"]
    assert SENTENCE in browser(engineer).get(f"/models/{document['id']}/").content.decode()
    renamed = upload_model(api(engineer), {"other.gguf": content}).json()
    assert renamed["digest"] == document["digest"]
    (file,) = announce(api(engineer), {"folder/tiny.gguf": content}).json()["files"]
    assert file["path"] == "tiny.gguf", "as of a directory, the folder's own name is no part of it"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda whole: whole[:-1], "it is truncated"),
        (lambda whole: whole.replace(b"message['content']", b"message.a**9999999"), "raises to a power"),
        (lambda whole: whole.replace(b"{% for", b"{% fro"), "is not valid Jinja"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(api, engineer, tmp_path, settings, change, reason):
    answer = upload_model(api(engineer), {"a.gguf": change(write_gguf(tmp_path / "model.gguf").read_bytes())})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["file"] == "a.gguf"
    assert reason in error["reason"]
    assert nothing_kept(settings)


TEXT = '{"text": "What they say."}\n{"text": "What they answer."}'
CRLF = TEXT.replace("\n", "\r\n")


@pytest.mark.parametrize("way", ["form", "file", "api"])
def test_a_workload_names_the_text_that_quality_is_measured_on(api, browser, engineer, model_files, way):
    digest = upload_model(api(engineer), model_files).json()["content_digest"]
    if way == "api":
        assert post(api(engineer), GOOD | {"model": digest, "quality_text": TEXT}).status_code == 201
    elif way == "form":
        browser(engineer).post("/workloads/new/", fields(GOOD | {"model": digest}) | {"quality_text": CRLF})
    else:
        file = SimpleUploadedFile("text.jsonl", TEXT.encode())
        browser(engineer).post("/workloads/new/", fields(GOOD | {"model": digest}) | {"quality_text_file": file})
    assert Workload.objects.get().sla.quality_text == TEXT


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("words", "llama-3.2-1b has no tokenizer.json, which the text takes"),
        ('{"text": "a"}\n{"text": 5}', "line 2 needs a text, or messages with role and content"),
        ("x" * 131_073, "should have at most 131072 characters"),
    ],
)
def test_a_text_that_cannot_be_used_is_refused_and_not_lost(api, browser, engineer, text, reason):
    problem = post(api(engineer), GOOD | {"quality_text": text}).json()
    assert problem["errors"][0]["field"] == "quality_text"
    assert reason in problem["errors"][0]["reason"]
    page = browser(engineer).post("/workloads/new/", fields(GOOD) | {"quality_text": text}).content.decode()
    assert reason in " ".join(shown_errors(page))
    assert escape(text) in page
    assert not Workload.objects.exists()
