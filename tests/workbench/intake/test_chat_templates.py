"""Chat templates: usual ones pass, broken and hostile ones are refused at upload, and none is ever executed."""

import json
import time
from pathlib import Path

import pytest

from kernels.model_files import ModelRefused
from tests.workbench.intake.conftest import nothing_kept, upload_model
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
def files(tmp_path):
    """`files({path: text})`: the paths, with where the text lies."""

    def written(texts: dict[str, str]) -> dict[str, Path]:
        at = {path: tmp_path / str(number) for number, path in enumerate(texts)}
        for path, text in texts.items():
            at[path].write_text(text)
        return at

    return written


def test_usual_templates_pass_parsing_executes_nothing_and_many_count_together(files):
    check_templates(files({path: place(USUAL) for path, place in PLACES.items()}))
    begun = time.process_time()
    check_templates(files({"chat_template.jinja": "{% for a in range(99999) %}" * 3 + "x" + "{% endfor %}" * 3}))
    assert time.process_time() - begun < 5, "a thousand million million rounds take longer"
    half = "a" * (MAX_BYTES // 2 + 1)
    both = {"chat_template.jinja": half, "tokenizer_config.json": json.dumps({"chat_template": half})}
    with pytest.raises(ModelRefused, match="together"):
        check_templates(files(both))


@pytest.mark.parametrize(
    ("path", "case"), [*((path, "a power") for path in PLACES), *(("chat_template.jinja", case) for case in HOSTILE)]
)
def test_hostile_templates_are_refused_wherever_they_lie(files, path, case):
    source, sentence = HOSTILE[case]
    with pytest.raises(ModelRefused) as refused:
        check_templates(files({path: PLACES[path](source)}))
    assert refused.value.file == path
    assert sentence in refused.value.reason


def test_an_upload_with_a_hostile_template_leaves_nothing(api, engineer, model_files, settings):
    settings_file = json.dumps({"chat_template": HOSTILE["a power"][0]}).encode()
    answer = upload_model(api(engineer), model_files | {"tokenizer_config.json": settings_file})
    sentence = "tokenizer_config.json: chat_template: line 1 of the chat template raises to a power"
    assert (answer.status_code, answer.json()["detail"]) == (422, sentence)
    assert nothing_kept(settings)
    usual = json.dumps({"chat_template": USUAL}).encode()
    assert upload_model(api(engineer), model_files | {"tokenizer_config.json": usual}).status_code == 201
