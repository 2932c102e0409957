"""Chat templates: usual ones pass, broken and hostile ones are refused at upload, and none is ever executed."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from kernels.model_files import ModelRefused
from tests.workbench.intake.conftest import Api, Files, nothing_kept
from workbench.accounts.models import User
from workbench.intake.services.chat_templates import MAX_BYTES, check_templates

USUAL = """{{- bos_token }}
{%- if not date_string is defined %}{% set date_string = strftime_now("%d %b %Y") %}{% endif %}
{%- macro said(message) -%}{{ message.content | trim }}{%- endmacro -%}
{% for message in messages %}{% if loop.index0 % 2 != (message.role == "assistant") | int %}
{{ raise_exception("Roles must alternate.") }}{% endif %}{% if message.role == "assistant" %}
{% generation %}<|assistant|>{{ said(message) }}{{ eos_token }}{% endgeneration %}
{% elif message.role == "tool" %}{% continue %}{% else %}{{ said(message) }}{% endif %}{% endfor %}"""

HOSTILE = {
    "a loop that never ends": ("{% for a in range(999999999) %}x{% endfor %}", "has a number over 100,000"),
    "a power": ("{{ 9 ** 9 ** 9 }}", "raises to a power"),
    "a long number": ("{{ " + "9" * 5000 + " }}", "a number in the chat template has too many digits"),
    "broken": ("one\n{% for a in b %}", "line 2 of the chat template is not valid Jinja"),
    "unknown tag": ("{% include 'x' %}{% nonesuch %}", "is not valid Jinja (Encountered unknown tag 'nonesuch'"),
    "nested": ("{{ " + "(" * 5000 + "a" + ")" * 5000 + " }}", "nested too deeply"),
    "chained": ("{{ a" + " + a" * 20_000 + " }}", "nested too deeply"),
    "huge": ("a" * (MAX_BYTES + 1), "the chat templates of a model may have 131,072 bytes together"),
}
PLACES = {
    "chat_template.jinja": lambda source: source,
    "additional_chat_templates/rag.jinja": lambda source: source,
    "tokenizer_config.json": lambda source: json.dumps({"chat_template": source}),
    "processor_config.json": lambda source: json.dumps({"chat_template": source}),
    "chat_template.json": lambda source: json.dumps({"chat_template": [{"name": "rag", "template": source}]}),
}


@pytest.fixture
def files(tmp_path: Path) -> Any:
    """`files({path: text})`: the paths, with where the text lies."""

    def written(texts: dict[str, str]) -> dict[str, Path]:
        at = {path: tmp_path / str(number) for number, path in enumerate(texts)}
        for path, text in texts.items():
            at[path].write_text(text)
        return at

    return written


def test_usual_templates_pass_wherever_they_lie(files: Any) -> None:
    check_templates(files({path: place(USUAL) for path, place in PLACES.items()}))


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_templates_are_refused_wherever_they_lie(files: Any, path: str, case: str) -> None:
    source, sentence = HOSTILE[case]
    with pytest.raises(ModelRefused) as refused:
        check_templates(files({path: PLACES[path](source)}))
    assert refused.value.file == path
    assert sentence in refused.value.reason


def test_many_templates_count_together(files: Any) -> None:
    half = "a" * (MAX_BYTES // 2 + 1)
    with pytest.raises(ModelRefused, match="together"):
        check_templates(
            files({"chat_template.jinja": half, "tokenizer_config.json": json.dumps({"chat_template": half})})
        )


def test_parsing_executes_nothing(files: Any) -> None:
    begun = time.process_time()
    check_templates(files({"chat_template.jinja": "{% for a in range(99999) %}" * 3 + "x" + "{% endfor %}" * 3}))
    assert time.process_time() - begun < 5, "a thousand million million rounds take longer"


def test_an_upload_with_a_hostile_template_is_refused_and_leaves_nothing(
    api: Api, engineer: User, model_files: Files, upload_model: Any, settings: Any
) -> None:
    settings_file = json.dumps({"chat_template": HOSTILE["a power"][0]}).encode()
    answer = upload_model(api(engineer), model_files | {"tokenizer_config.json": settings_file})
    assert answer.status_code == 422
    assert answer.json()["detail"] == (
        "tokenizer_config.json: chat_template: line 1 of the chat template raises to a power"
    )
    assert nothing_kept(settings)
    usual = json.dumps({"chat_template": USUAL}).encode()
    assert upload_model(api(engineer), model_files | {"tokenizer_config.json": usual}).status_code == 201
