"""The text that quality is measured on: what a workload may name, and how it becomes tokens."""

import json

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from kernels.model_files import ModelRefused
from kernels.runners import load, runner
from tests.workers.conftest import TINY
from workers.documents.quality_text import MAX_CHARACTERS, records
from workers.documents.traffic import Traffic
from workers.documents.workload import Sla
from workers.measuring import quality, texts
from workers.measuring.allowed_rises import Tolerances

WORDS = ["user", "assistant", ":", "the", "kernel", "reads", "its", "weights"]
CHAT = [{"role": "user", "content": "the kernel"}, {"role": "assistant", "content": "reads its weights"}]
TEMPLATE = "{% for m in messages %}{{ m.role }} : {{ m.content }} {% endfor %}"
OBJECTIVES = [{"metric": "ttft", "limit": 5}]


@pytest.fixture
def model_dir(tmp_path):
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(["?", *WORDS])}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def words_of(ids):
    return [["?", *WORDS][item] for item in ids.flatten().tolist()]


def test_json_lines_and_arrays_hold_texts_and_chats():
    text = json.dumps({"text": "the kernel", "source": "left out"}) + "\n\n" + json.dumps({"messages": CHAT}) + "\n"
    assert records(text) == ["the kernel", CHAT]
    for plain in ("plain { text }\nof two lines", "[1] is a footnote", '["a", says he'):
        assert records(plain) == [plain]
    assert records(" \n") == []

    for sign in ("\u2028", "\u2029", "\x85", "\x0b", "\x1c"):  # a line ends at a line feed alone
        text = json.dumps({"text": f"the{sign}kernel"}, ensure_ascii=False)
        assert records(f"\ufeff{text}\r\n{text}") == [f"the{sign}kernel"] * 2
    assert records("\ufeffplain") == ["plain"]
    spoken = [{"from": "human", "value": "the kernel"}, {"from": "gpt", "value": "reads its weights"}]
    entries = [{"id": "1", "conversations": spoken}, {"messages": CHAT}, {"text": "plain"}]
    for text in (json.dumps(entries), json.dumps(entries, indent=1), "\n".join(map(json.dumps, entries))):
        assert records(text) == [CHAT, CHAT, "plain"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"text": "a"}\n{"text": }', "line 2, column 10: broken JSON"),
        ('{"text": "a"}\nb', "line 2, column 1: broken JSON"),
        ('[{"text": "a"},\n {"text": 5}]', "entry 2 needs a text, or messages with role and content"),
        ('[{"text": "a"},\n {"text": }]', "line 2, column 11: broken JSON"),
        ('{"text": 5}', "line 1 needs a text, or messages with role and content"),
        ('{"messages": [{"role": "user"}]}', "line 1 needs a text, or messages"),
        ('{"messages": []}', "line 1 needs a text, or messages"),
        ('{"text": "\\ud800"}', "line 1 holds an escape that stands for half of a character"),
        ("one\ntwo\0", "line 2 holds a NUL character"),
        ("x" * (MAX_CHARACTERS + 1), f"at most {MAX_CHARACTERS} characters"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_by_its_line(text, sentence):
    with pytest.raises(ValueError, match="quality_text") as result:
        Sla(objectives=OBJECTIVES, quality_text=text)
    assert sentence in str(result.value)


def test_the_workloads_text_comes_before_the_models_own(model_dir):
    (model_dir / "quality.txt").write_text("weights " * 20)
    ids = texts.from_text(model_dir, "the kernel reads its " * 4, 8, 100, 256)
    assert words_of(ids.ids[0]) == ["the", "kernel", "reads", "its"] * 2
    assert (ids.source, ids.written) == ("the workload's text", 2)
    assert texts.from_text(model_dir, "", 8, 100, 256).source == "the model's quality.txt"


def test_a_chat_is_rendered_by_the_models_own_template(model_dir):
    (model_dir / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    ids = texts.from_text(model_dir, json.dumps({"messages": CHAT}), 9, 100, 256)
    assert words_of(ids.ids) == ["user", ":", "the", "kernel", "assistant", ":", "reads", "its", "weights"]
    (model_dir / "chat_template.jinja").write_text("weights " * 9)
    assert words_of(texts.from_text(model_dir, json.dumps({"messages": CHAT}), 9, 100, 256).ids) == ["weights"] * 9


def test_each_sequence_begins_and_ends_as_the_tokenizer_has_it(model_dir):
    path = model_dir / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(3)  # as files of models that embed texts have both
    tokenizer.enable_padding(length=64)
    tokenizer.add_special_tokens(["<bos>", "<end>"])
    special = [(value, tokenizer.token_to_id(value)) for value in ("<bos>", "<end>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=special[:1])
    tokenizer.save(str(path))
    first, last = special[0][1], special[1][1]
    ids = texts.from_text(model_dir, "the kernel reads its weights " * 3, 5, 100, 256).ids
    assert [words_of(row[1:]) for row in ids] == [WORDS[3:7], [WORDS[7], *WORDS[3:6]], [*WORDS[6:8], *WORDS[3:5]]]
    assert ids[:, 0].tolist() == [first] * 3
    (model_dir / "chat_template.jinja").write_text("<bos>the kernel reads")
    ids = texts.from_text(model_dir, json.dumps([{"messages": CHAT}] * 2), 4, 100, 256).ids
    assert ids[:, :2].tolist() == [[first, 4]] * 2
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A <end>", special_tokens=special)
    tokenizer.save(str(path))
    ids = texts.from_text(model_dir, "the kernel reads its weights", 4, 100, 256).ids
    assert [[row[0], row[-1]] for row in ids.tolist()] == [[first, last]] * 2


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        (None, "the text holds chats, but the model has no chat template"),
        ("{{ raise_exception('roles must alternate') }}", "the chat template fails on a chat of the text: roles must"),
        ("{{ messages.__class__.__mro__ }}", "the chat template fails on a chat of the text: access to attribute"),
        ("{% for i in range(99999) %}{{ 'weights weights weights weights weights ' * 9 }}{% endfor %}", "writes over"),
    ],
)
def test_a_template_that_cannot_render_is_refused(model_dir, template, sentence):
    if template:
        (model_dir / "chat_template.jinja").write_text(template)
    with pytest.raises(ModelRefused, match=sentence):
        texts.check(model_dir, json.dumps({"messages": CHAT}), 4, 256)


@pytest.mark.parametrize(
    ("text", "length", "vocabulary", "sentence"),
    [
        ("the kernel", 8, 256, "quality_text: the text has 2 tokens, fewer than the 8 of one sequence"),
        ("the kernel reads", 2, 4, "tokenizer.json: the tokenizer gives the id 6, but the model knows 4 tokens"),
        ("the kernel", 1, None, "quality_text: the model reads no text"),
    ],
)
def test_a_text_that_the_model_cannot_use_is_refused(model_dir, text, length, vocabulary, sentence):
    with pytest.raises(ModelRefused, match=sentence):
        texts.check(model_dir, text, length, vocabulary)


def test_a_text_takes_a_tokenizer_and_sequences_are_as_long_as_the_workloads_requests(tmp_path):
    with pytest.raises(ModelRefused, match=r"quality_text: the model has no tokenizer.json"):
        texts.check(tmp_path, "the kernel", 1, 256)
    texts.check(tmp_path, "", 1, 256)
    traffic = Traffic(prompt_tokens=1000, output_tokens=500, batch=2)
    assert texts.sequence_length(traffic, True, 32_000) == 1500
    assert texts.sequence_length(traffic, False, 32_000) == 1000
    assert texts.sequence_length(Traffic(prompt_tokens=100_000, batch=8), True, 128_256) == 1046


def test_accuracy_and_perplexity_are_counted_token_by_token(model_dir):
    own = " ".join(WORDS) + " "
    tokens = texts.from_text(model_dir, own * 32, 16, 256, 256)
    model = load(None, TINY, generated=True, dtype="fp32", device="cpu")
    today = runner("eager", model)
    compared = quality.compare(today, today, today, tokens, 4, lambda done: True)
    result = quality.judge(*compared, tokens, True, Tolerances.stated(0.01))
    logits = torch.log_softmax(model(input_ids=tokens.ids).logits, -1)[:, :-1]
    following = tokens.ids[:, 1:]
    surprise = -logits.gather(-1, following[..., None])[..., 0].double()
    scores = result.text
    assert (scores.source, scores.sequences, scores.length, scores.predictions) == ("the workload's text", 16, 16, 240)
    assert scores.accuracy_before.value == pytest.approx(float((logits.argmax(-1) == following).double().mean()))
    assert scores.perplexity_before.value == pytest.approx(float(surprise.mean().exp()), rel=1e-6)
    assert scores.perplexity_ratio.value == 1
    assert result.source == "the workload's text"
    assert "16 sequences of 16 tokens" in result.sentence


def test_a_model_writes_behind_the_tokens_that_begin_a_text():
    model = load(None, TINY, generated=True, dtype="fp32", device="cpu")
    for length, begins in ((2, 0), (3, 1), (8, 2)):
        ids = texts.generate_texts(model, 256, length, 2 * length, before=[5, 6]).ids
        assert ids.shape == (2, length)
        assert ids[:, :begins].tolist() == 2 * [[5, 6][:begins]]


@pytest.mark.parametrize("by_graphs", [True, False])
def test_what_a_model_writes_has_its_own_probabilities_and_is_cut_short_where_the_time_is_over(by_graphs, monkeypatch):
    """The mean surprise of ids that are drawn from a distribution is its entropy."""
    model = load(None, TINY, generated=True, dtype="fp32", device="cpu")
    assert not texts.under_graphs(model), "a CPU has no graphs, and its time counts"
    monkeypatch.setattr(texts, "under_graphs", lambda model: by_graphs)
    time_left = [True, True, True]
    ids = texts.generate_texts(model, 256, 24, 96 * 24, lambda: bool(time_left and time_left.pop()), before=[5]).ids
    assert ids.shape[0] == texts.WRITTEN_AT_ONCE, "sequences that were hardly begun are left out"
    assert 4 <= ids.shape[1] <= 6
    model.lm_head.weight.data *= 40
    ids = texts.generate_texts(model, 256, 24, 96 * 24, before=[5]).ids
    with torch.no_grad():
        chances = torch.log_softmax(model(ids).logits[:, 1:-1].double(), -1)
    entropy = -(chances.exp() * chances).sum(-1)
    surprise = -chances.gather(-1, ids[:, 2:, None])[..., 0]
    error = (surprise - entropy).std() / surprise.numel() ** 0.5
    assert entropy.mean() < 4.5, "a uniform distribution would tell nothing"
    assert abs(surprise.mean() - entropy.mean()) < 4 * error


def test_the_intervals_are_those_of_whole_sequences():
    before, after = quality.NextToken(), quality.NextToken()
    before.right, before.surprise = [0.1, 0.3] * 8, [2.0, 4.0] * 8
    after.right, after.surprise = [0.1, 0.3] * 8, [2.1, 4.1] * 8
    result = quality.scores(before, after, texts.Tokens(torch.zeros(16, 8), "a text and more", 16))
    assert result.accuracy_before.low < 0.2 < result.accuracy_before.high
    assert result.accuracy_change.low == result.accuracy_change.high == 0
    assert result.perplexity_ratio.low == pytest.approx(result.perplexity_ratio.high)
    assert result.source == "a text"
    assert quality.scores(before, after, texts.Tokens(torch.zeros(16, 8), "random token ids")) is None
