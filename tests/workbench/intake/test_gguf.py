"""A model that is handed in as one GGUF file."""

from pathlib import Path
from typing import Any

import pytest

from tests.kernels.gguf_files import write_gguf
from tests.workbench.intake.conftest import Api, announce, nothing_kept
from workbench.accounts.models import User

SENTENCE = "Its weights are GGUF (Q8_0, F32): they are dequantised to bf16 before anything is measured."


def test_one_file_is_a_model_and_its_page_says_what_becomes_of_the_weights(
    api: Api, browser: Any, engineer: User, upload_model: Any, tmp_path: Path
) -> None:
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
def test_a_bad_file_is_refused_in_one_sentence(
    api: Api, engineer: User, upload_model: Any, tmp_path: Path, settings: Any, change: Any, reason: str
) -> None:
    answer = upload_model(api(engineer), {"a.gguf": change(write_gguf(tmp_path / "model.gguf").read_bytes())})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["file"] == "a.gguf"
    assert reason in error["reason"]
    assert nothing_kept(settings)
