"""Texts of answers: whole characters only, stop texts across pieces, and models without a tokenizer."""

import json
from pathlib import Path

import pytest

from kernels.serve.text import ByteText, Pieces, Stops, text_of

MODEL = Path(__file__).parents[3] / "samples" / "voice-agent"
TEXT = "naïve — “€5” 😀 done"


@pytest.mark.parametrize(
    "text", [ByteText(frozenset()), text_of(MODEL, json.loads((MODEL / "config.json").read_text()))]
)
def test_pieces_add_up_to_the_text_and_hold_no_half_character(text) -> None:
    pieces = Pieces(text)
    told = [pieces.add(each) for each in text.encode(TEXT)]
    assert "".join(told) + pieces.rest() == TEXT
    assert all("\N{REPLACEMENT CHARACTER}" not in piece for piece in told)


def test_an_answer_may_end_within_a_character() -> None:
    pieces = Pieces(ByteText(frozenset()))
    assert pieces.add("é".encode()[0]) == ""
    assert pieces.rest() == "\N{REPLACEMENT CHARACTER}"


def test_a_stop_is_found_across_pieces_and_is_no_part_of_the_answer() -> None:
    stops = Stops(["END", "\n\n"])
    assert stops.add("one E") == ("one ", False)
    assert stops.add("N") == ("", False)
    assert stops.add("two\n") == ("ENtwo", False)
    assert stops.add("\nmore") == ("", True)


def test_what_only_looked_like_a_stop_is_told_at_the_end() -> None:
    stops = Stops(["stop"])
    assert stops.add("sto") == ("", False)
    assert stops.rest() == "sto"


def test_a_model_without_a_tokenizer_is_served_by_bytes_and_ids(tmp_path: Path) -> None:
    text = text_of(tmp_path, {"eos_token_id": [3, 4]})
    assert text.encode("hé") == [104, 195, 169]
    assert text.decode([104, 195, 169, 70_000]) == "hé<70000>"
    assert text.chat([{"role": "user", "content": "hi"}]) == text.encode("user: hi\nassistant:")
    assert text.stop_ids == {3, 4}


def test_a_template_that_refuses_is_told_in_a_sentence(tmp_path: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((MODEL / name).read_bytes())
    template = (
        "{% if messages[0].role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}{{ messages[0].content }}"
    )
    (tmp_path / "chat_template.jinja").write_text(template)
    text = text_of(tmp_path, {})
    assert text.chat([{"role": "user", "content": "the list"}]) == text.encode("the list")
    with pytest.raises(ValueError, match="no tools"):
        text.chat([{"role": "tool", "content": "x"}])


def test_a_template_runs_in_a_sandbox(tmp_path: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((MODEL / name).read_bytes())
    (tmp_path / "chat_template.jinja").write_text("{{ messages.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(ValueError, match="chat template"):
        text_of(tmp_path, {}).chat([{"role": "user", "content": "x"}])
