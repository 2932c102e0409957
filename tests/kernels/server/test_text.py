"""Texts of answers: whole characters only, stop texts across pieces, and models without a tokenizer."""

import json
import math
from pathlib import Path

import pytest
from tokenizers import Tokenizer, normalizers
from tokenizers.decoders import ByteFallback, Fuse, Replace, Sequence, Strip
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from kernels.server.http.answering import Entries, LogprobEntry, Piece, StreamState
from kernels.server.http.client import TokenEvent
from kernels.server.http.response_formats import of_chat, of_completion
from kernels.server.http.text import ByteText, IncrementalDetokenizer, StopChecker, TextCodec, text_of
from kernels.server.scheduler.requests import Logprobs

MODEL = Path(__file__).parents[3] / "samples" / "voice-agent"
BYTES = ByteText(frozenset())
TEXT = "naïve — “€5” 😀 done"


@pytest.mark.parametrize(
    "text", [ByteText(frozenset()), text_of(MODEL, json.loads((MODEL / "config.json").read_text()))]
)
def test_pieces_and_bytes_of_tokens_add_up_to_the_text_and_no_piece_holds_half_a_character(text) -> None:
    pieces = IncrementalDetokenizer(text)
    state = [pieces.add(item) for item in text.encode(TEXT)]
    assert "".join(state) + pieces.rest() == TEXT
    assert all("\N{REPLACEMENT CHARACTER}" not in piece for piece in state)
    assert b"".join(map(text.token_bytes, text.encode(TEXT))) == TEXT.encode()


def test_an_answer_of_broken_characters_is_told_as_it_comes() -> None:
    pieces = IncrementalDetokenizer(ByteText(frozenset()))
    state = [pieces.add(0xC2) for _ in range(100)]
    assert state.index("\N{REPLACEMENT CHARACTER}" * 16) == 15
    assert "".join(state) + pieces.rest() == "\N{REPLACEMENT CHARACTER}" * 100


@pytest.fixture(scope="module")
def spaced(tmp_path_factory: pytest.TempPathFactory) -> TextCodec:
    """A tokenizer that writes a word's space before it and drops the one at the beginning of a text, as Llama 2's."""
    words = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abdn", "▁a", "▁b", "▁n"]
    own = Tokenizer(
        BPE({word: at for at, word in enumerate(words)}, [("▁", "a"), ("▁", "b"), ("▁", "n")], byte_fallback=True)
    )
    own.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    own.decoder = Sequence([Replace("▁", " "), ByteFallback(), Fuse(), Strip(" ", 1, 0)])
    own.post_processor = TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    own.add_special_tokens(["<s>"])
    folder = tmp_path_factory.mktemp("spaced")
    own.save(str(folder / "tokenizer.json"))
    return text_of(folder, {})


@pytest.mark.parametrize("prompt", ["ab", "ab ", "é" * 9, "a" + "é" * 99, "", "b<s>", "<s><s>"])
@pytest.mark.parametrize("answer", [" a band", "and é", "  b  a", "é", "😀 a"])
def test_an_answer_goes_on_behind_its_prompt(spaced: TextCodec, prompt: str, answer: str) -> None:
    ids, before = spaced.encode(prompt), spaced.encode("b")
    behind = spaced.encode("b" + answer)[len(before) :]
    pieces = IncrementalDetokenizer(spaced, ids)
    texts = [pieces.add(token) for token in behind]
    assert "".join(texts) + pieces.rest() == spaced.decode(ids + behind)[len(spaced.decode(ids)) :]
    assert sum(map(bool, texts)) > len(behind) / 6  # as it comes


def test_a_stop_is_found_across_pieces_and_is_no_part_of_the_answer() -> None:
    stops = StopChecker(["END", "\n\n"])
    assert stops.add("one E") == ("one ", False)
    assert stops.add("N") == ("", False)
    assert stops.add("two\n") == ("ENtwo", False)
    assert stops.add("\nmore") == ("", True)
    stops = StopChecker(["stop"])
    assert (stops.add("sto"), stops.rest()) == (("", False), "sto")


def test_a_token_keeps_its_space_and_a_byte_token_is_its_byte(tmp_path: Path) -> None:
    """As in tokenizers that drop the space at the beginning of a text, such as those of Mistral."""
    vocabulary = {"<unk>": 0, "<0xE2>": 1, "a": 2, "▁to": 3, "<s>": 4, "�": 5}
    own = Tokenizer(BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    own.decoder = Sequence([Replace("▁", " "), ByteFallback(), Fuse(), Strip(" ", 1, 0)])
    own.add_special_tokens(["<s>"])
    own.save(str(tmp_path / "tokenizer.json"))
    text = text_of(tmp_path, {})
    assert [text.token_bytes(index) for index in range(1, 6)] == [b"\xe2", b"a", b" to", b"<s>", "�".encode()]


def entries_of(stop: list[str], reason: str = "length") -> tuple[str, list[tuple[str, int]]]:
    """An answer, one byte a token, as it is told: its text, and each entry's token and offset."""
    state, answer, result = StreamState(IncrementalDetokenizer(BYTES), StopChecker(stop), Entries()), "", []
    ids = BYTES.encode("a €5 done")
    for at, token in enumerate(ids):
        piece = Piece(0)
        state.extend(piece, TokenEvent(token, reason if at == len(ids) - 1 else None, 0, Logprobs(-1.0, [])))
        answer += piece.text
        result += [(chr(entry.token), entry.offset) for entry in piece.entries]
        assert all(offset < len(answer) for _, offset in result)
        if piece.finish_reason:
            break
    return answer, result


@pytest.mark.parametrize(
    ("stop", "reason", "answer", "offsets"),
    [
        ([], "length", "a €5 done", [0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8]),
        ([], "stop", "a €5 don", [0, 1, 2, 2, 2, 3, 4, 5, 6, 7]), (["5 d"], "length", "a €", [0, 1, 2, 2, 2]),
        (["€"], "length", "a ", [0, 1]), (["a"], "length", "", []),
        (["ones"], "length", "a €5 done", [0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8]),
    ],
)  # fmt: skip
def test_log_probabilities_are_told_for_the_tokens_of_the_text(stop, reason, answer, offsets) -> None:
    """The parts of a character share its place, and a stop text or token has none."""
    text, entries = entries_of(stop, reason)
    assert text == answer
    assert [offset for _, offset in entries] == offsets
    assert "".join(token for token, _ in entries).encode("latin-1").decode() == answer


def test_log_probabilities_are_written_as_openai_writes_them() -> None:
    likeliest = [(65, -0.5), (0xE2, -1.5), (66, -math.inf)]
    entries = [LogprobEntry(65, 0, Logprobs(-0.5, likeliest)), LogprobEntry(0xE2, 1, Logprobs(-3.0, likeliest[:1]))]
    assert of_completion(entries, BYTES) == {
        "tokens": ["A", "bytes:\\xe2"],
        "token_logprobs": [-0.5, -3.0],
        "top_logprobs": [{"A": -0.5, "bytes:\\xe2": -1.5, "B": -9999.0}, {"A": -0.5, "bytes:\\xe2": -3.0}],
        "text_offset": [0, 1],
    }
    first = {"token": "A", "logprob": -0.5, "bytes": [65]}
    part = {"token": "\\xe2", "logprob": -1.5, "bytes": [0xE2]}
    assert of_chat(entries, BYTES) == {
        "content": [
            first | {"top_logprobs": [first, part, {"token": "B", "logprob": -9999.0, "bytes": [66]}]},
            part | {"logprob": -3.0, "top_logprobs": [first]},
        ],
        "refusal": None,
    }


def test_a_model_without_a_tokenizer_is_served_by_bytes_and_ids(tmp_path, caplog):
    text_of(None, {})
    assert not caplog.messages
    text = text_of(tmp_path, {"eos_token_id": [3, 4]})
    assert caplog.messages == [f"{tmp_path}: it holds no tokenizer.json, so the bytes of texts are taken for their ids"]
    assert text.encode("hé") == [104, 195, 169]
    assert text.decode([104, 195, 169, 70_000]) == "hé<70000>"
    assert text.chat([{"role": "user", "content": "hi"}]) == text.encode("user: hi\nassistant:")
    assert text.stop_ids == {3, 4}


def templated(folder: Path, template: str) -> TextCodec:
    """The sample's tokenizer with a template, and with a token at the beginning that its vocabulary lacks."""
    (folder / "tokenizer.json").write_bytes((MODEL / "tokenizer.json").read_bytes())
    text = json.loads((MODEL / "tokenizer_config.json").read_text())
    more = {"bos_token": {"content": "<begin>"}, "chat_template": [{"name": "default", "template": template}]}
    (folder / "tokenizer_config.json").write_text(json.dumps(text | more))
    return text_of(folder, {})


def test_chats_and_ids_are_those_of_transformers(tmp_path: Path) -> None:
    """What templates in use ask for: special tokens, `generation`, `break`, `tojson`, trimmed blocks."""
    template = (
        "{{ bos_token }}{% for m in messages %}\n  {% if loop.index0 == 3 %}{% break %}{% endif %}\n[{{ m.role }}] "
        "{{ m.name }}{% generation %}{{ m['content'] | trim }}{% endgeneration %}{{ eos_token }}\n{% endfor %}"
        "{{ {'é': '<'} | tojson }}{% if add_generation_prompt and not tools %}[assistant]{% endif %}"
    )
    text = templated(tmp_path, template)
    theirs = PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "tokenizer.json"), bos_token="<begin>", eos_token="<|end|>"
    )
    theirs.chat_template = template
    chat = [{"role": "user", "content": f" {TEXT} {{{{ 7 * 7 }}}} ", "name": "Ann"}] * 5
    assert text.chat(chat) == theirs.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    for value in ("", TEXT, "<begin> a<|end|>b", " \n\n  x"):
        assert text.encode(value) == theirs(value).input_ids
        assert text.decode(text.encode(value)) == theirs.backend_tokenizer.decode(theirs(value).input_ids)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% include '/etc/passwd' %}", "fails"),
        ("{{ messages.__class__.__mro__[1].__subclasses__() }}", "fails"),
        ("{% for i in range(10**9) %}{% endfor %}", "fails"),
        ("{% for i in range(9999) %}{% for j in range(9999) %}{{ 'a' * 99 }}{% endfor %}{% endfor %}", "writes over"),
    ],
)
def test_a_template_reads_no_file_and_ends(tmp_path: Path, template: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^messages: the model's chat template {said}"):
        templated(tmp_path, template).chat([{"role": "user", "content": "a"}])


def test_a_template_reads_the_variables_of_a_request_and_may_refuse(tmp_path: Path) -> None:
    template = "{{ messages[0].content }}{% if enable_thinking is defined and not enable_thinking %} briefly{% endif %}"
    text, chat = templated(tmp_path, template), [{"role": "user", "content": "the list"}]
    assert text.chat(chat, variables={"enable_thinking": False}) == text.encode("the list briefly")
    assert text.chat(chat, variables={"enable_thinking": True}) == text.encode("the list")
    with pytest.raises(ValueError, match="this model has no chat template"):
        BYTES.chat(chat, variables={"enable_thinking": False})
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


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
def test_the_tokenizers_end_ends_an_answer_beside_those_of_the_configurations(tmp_path: Path, file: str) -> None:
    (tmp_path / "tokenizer.json").write_bytes((MODEL / "tokenizer.json").read_bytes())
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [7]}))
    (tmp_path / file).write_text(json.dumps({"eos_token": {"content": "<|end|>"}, "add_bos_token": True}))
    template = "{{ messages[0].content }}{{ eos_token }}"
    (tmp_path / "chat_template.jinja").write_text(template)
    text = text_of(tmp_path, {"eos_token_id": 5})
    assert text.stop_ids == {5, 7, 0}
    assert text.chat([{"role": "user", "content": "list"}]) == [*text.encode("list"), 0]
    ids = text.encode("a list<|end|>")
    for skipped, state in ((True, "a list"), (False, "a list<|end|>")):
        pieces = IncrementalDetokenizer(text, skip_special_tokens=skipped)
        assert "".join(map(pieces.add, ids)) + pieces.rest() == state
