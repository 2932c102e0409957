"""`workbench submit`: what is handed in, and the sentence when it is not taken."""

import json
import time
from types import SimpleNamespace

import pytest

from workbench.accounts.secrets import cipher
from workbench.intake.models import Model, Recording, Upload, Workload
from workbench.intake.services.endpoints import KEYS
from workbench.runs.models import Run

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_directory_becomes_a_model_and_a_run_and_its_files_are_sent_once(cli, model_dir, sla_file, tmp_path):
    done = cli("submit", model_dir, "--sla", sla_file, "--json")
    assert done.exit_code == 0, done.output
    assert "sending" in done.stderr
    run = Run.objects.get(pk=json.loads(done.stdout)["id"])
    files = dict(run.workload.model.files.values_list("path", "size"))
    assert set(files) == {"config.json", "model.safetensors", "tokenizer.json"}
    assert files["model.safetensors"] == (model_dir / "model.safetensors").stat().st_size
    assert run.workload.document["objectives"][0]["limit"] == 100
    assert not Upload.objects.open().exists()
    text = tmp_path / "calls.jsonl"
    text.write_text('{"text": "What they say."}\n')
    again = cli("submit", model_dir, "--sla", sla_file, "--text", text)
    assert (again.exit_code, "sending" in again.stderr) == (0, False)
    assert Model.objects.count() == 1
    assert Run.objects.exclude(pk=run.pk).get().workload.sla.quality_text == text.read_text()


RECORDED = (
    "objectives: [{metric: ttft, limit: 500}]\nload: {most_users: 4}\n"
    "traffic: {arrivals: {kind: recorded}, recording: calls.csv}\n"
)


def test_a_recording_beside_the_sla_is_handed_in_once(cli, sla_file):
    calls = sla_file.with_name("calls.csv")
    calls.write_text("arrival_s,prompt_tokens,output_tokens\n0,8,4\n9,8,4\n")
    sla_file.write_text(RECORDED)
    for _ in range(2):
        done = cli("submit", "tiny-llama", "--sla", sla_file)
        assert done.exit_code == 0, done.output
        assert "calls.csv: 2 requests over 9 s." in done.output
    assert {item.recording.name for item in Workload.objects.all()} == {"calls.csv"}
    assert Recording.objects.get().sha256 == Workload.objects.first().sla.traffic.recording
    sla_file.write_text(RECORDED.replace("calls.csv", Recording.objects.get().sha256))
    assert cli("submit", "tiny-llama", "--sla", sla_file).exit_code == 0

    sla_file.write_text(RECORDED)
    calls.write_text("arrival_s,prompt_tokens,output_tokens\n0,8,4\n9,8,none\n")
    refused = cli("submit", "tiny-llama", "--sla", sla_file)
    assert refused.exit_code == 2
    assert "line 3: output_tokens is no number" in refused.output.replace("\n", "")
    assert Workload.objects.count() == 3


@pytest.mark.parametrize("stated", [True, False])
def test_an_endpoint_may_have_its_key_in_the_sla_or_in_the_environment(cli, sla_file, settings, monkeypatch, stated):
    settings.ENDPOINT_ALLOWED_HOSTS = ["models.example.com"]
    monkeypatch.setenv("WORKBENCH_ENDPOINT_KEY", "sk-of-the-environment")
    key = ", key: sk-of-the-file" if stated else ""
    endpoint = "{url: 'https://models.example.com/v1', model: theirs" + key + "}"
    sla_file.write_text(f"objectives: [{{metric: ttft, limit: 500}}]\nendpoint: {endpoint}\n")
    done = cli("submit", "tiny-llama", "--sla", sla_file, "--json")
    assert done.exit_code == 0, done.output
    assert "sk-of-the" not in done.output
    row = Run.objects.get().workload
    result = cipher(KEYS).decrypt(row.endpoint_key.encode()).decode()
    assert result == ("sk-of-the-file" if stated else "sk-of-the-environment")
    assert "sk-of-the" not in json.dumps(row.document)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"text": "a"}\n{"word": "b"}', "calls.jsonl: line 2 needs a text, or messages with role and content"),
        ("x" * 131_073, "calls.jsonl: has 131,073 characters; a quality text has at most 131,072"),
        (" ", "calls.jsonl: holds no text"),
        (None, "calls.jsonl: No such file"),
    ],
)
def test_a_bad_text_is_named_by_file_and_line(cli, sla_file, tmp_path, content, sentence):
    file = tmp_path / "calls.jsonl"
    if content is not None:
        file.write_text(content)
    done = cli("submit", "tiny-llama", "--sla", sla_file, "--text", file)
    assert (done.exit_code, sentence in done.stderr.replace("\n", "")) == (2, True)
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("objectives: [{metric: ttft, limit: -5}]", "sla.yaml: objectives[0].limit: should be greater than 0, not -5"),
        ("objectives: [", "sla.yaml: line 1, column 14: broken YAML"),
        ("- a list", "sla.yaml: an SLA is a mapping"),
        (
            "traffic: {prompt_tokens: 5000}\nobjectives: [{metric: ttft, limit: 5}]",
            "traffic.prompt_tokens: 5,000 prompt and 64 output tokens are more than the",
        ),
    ],
)
def test_a_bad_sla_is_named_by_file_field_and_reason(cli, sla_file, text, sentence):
    sla_file.write_text(text)
    done = cli("submit", "tiny-llama", "--sla", sla_file, "--wait")
    assert (done.exit_code, f"workbench: {sentence}" in done.stderr.replace("\n", " ")) == (2, True)
    assert "Traceback" not in done.output
    assert not Run.objects.exists()


def test_a_missing_sla_directory_or_model_and_an_impossible_class_are_named(cli, sla_file, tmp_path):
    for model, sla, sentence in (
        ("tiny-llama", tmp_path / "none.yaml", "No such file"),
        (tmp_path / "nowhere", sla_file, "there is no such file or directory"),
        (sla_file, sla_file, "is a file; give the model's directory"),
        (tmp_path, sla_file, "config.json: the file is missing"),
    ):
        refused = cli("submit", model, "--sla", sla)
        assert (refused.exit_code, sentence in refused.stderr) == (2, True)
    unknown = cli("submit", "gpt-17", "--sla", sla_file)
    assert (unknown.exit_code, "model: there is no model 'gpt-17'" in unknown.stderr) == (2, True)
    impossible = cli("submit", "tiny-llama", "--sla", sla_file, "--gpu-class", "b200")
    assert (impossible.exit_code, "gpu_class: the workload allows" in impossible.stderr) == (2, True)
    assert not Workload.objects.exists(), "a refused submission leaves nothing behind"


def test_what_the_workbench_refuses_is_said_in_its_words(cli, model_dir, sla_file):
    (model_dir / "model.safetensors").rename(model_dir / "pytorch_model.bin")
    (model_dir / "tf_model.h5").write_bytes(b"x")
    done = cli("submit", model_dir, "--sla", sla_file)
    assert done.exit_code == 2
    for sentence in ("pytorch_model.bin: this is a pickle format", "tf_model.h5: .h5 weights are not taken"):
        assert sentence in done.stderr
    assert not Model.objects.exists()
    assert not Upload.objects.open().exists()


def test_a_model_of_the_catalogue_a_project_and_tags_are_handed_in_and_listed(cli, sla_file):
    tagged = ("--project", "Voice", "--tag", "nightly", "--tag", "main", "--gpu-class", "cpu")
    assert json.loads(cli("submit", "tiny-llama", "--sla", sla_file, "--json", *tagged).stdout)["project"] == "Voice"
    assert Run.objects.get().gpu_class == "cpu"
    cli("rerun", "--latest", "--tag", "again")
    listed = cli("runs", "--tag", "nightly", "--project", "Voice").stdout
    assert listed.split("\n")[1].rstrip().endswith("main, nightly")
    assert len(json.loads(cli("runs", "--tag", "again", "--json").stdout)) == 1
    refused = cli("submit", "tiny-llama", "--sla", sla_file, "--tag", "a,b")
    assert (refused.exit_code, "tags[0]" in refused.stderr) == (2, True)
    assert Workload.objects.count() == 1, "nothing is kept of what is refused"


def test_a_missing_or_wrong_token_and_a_dead_server_are_sentences(cli, sla_file, monkeypatch):
    wrong = cli("--token", "kwb_wrong", "runs")
    assert (wrong.exit_code, "does not know the token" in wrong.stderr) == (2, True)
    for token in ("kwb_ü", "kwb_a\nb"):
        done = cli("--token", token, "runs")
        assert (done.exit_code, "WORKBENCH_TOKEN is no token" in done.stderr) == (2, True)
    monkeypatch.setattr("workbench.cli.client.time", SimpleNamespace(sleep=lambda _: None, monotonic=time.monotonic))
    dead = cli("--url", "http://127.0.0.1:9", "runs")
    assert (dead.exit_code, "http://127.0.0.1:9 cannot be reached" in dead.stderr) == (3, True)
    odd = cli("--url", "nonsense", "runs")
    assert (odd.exit_code, "Traceback" not in odd.output, "nonsense" in odd.stderr) == (2, True, True)
    monkeypatch.delenv("WORKBENCH_TOKEN")
    missing = cli("--url", "http://127.0.0.1:9", "submit", "tiny-llama", "--sla", sla_file)
    assert (missing.exit_code, "make a token at http://127.0.0.1:9/tokens/" in missing.stderr) == (2, True)
