"""Chooses the tokens that quality is measured on."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from kernels.model import decoder
from kernels.model_files import ModelRefused
from kernels.runners.sessions import SamplingSession
from workers.documents.quality_text import Record, records
from workers.documents.traffic import Traffic
from workers.measuring import tokenize_text

TEXT_FILES = ("quality.txt", "eval.txt")
"""Names of a text in a model's directory; the first that exists is the model's text."""
TOKENIZER = "tokenizer.json"
FIELD = "quality_text"
CHECKED_IDS = 2**16
"""How many ids of the text `check` makes, before anything is measured."""
READ_CHARACTERS = 2**22
"""The most characters of the model's text that are read."""
LOGITS_BYTES = 4 * 2**30
"""The most bytes of one batch's float32 logits; longer sequences are cut."""
TOKENIZE_SECONDS = 120
WRITTEN_AT_ONCE = 64
WARM_UP_ROOM = 8
"""Tokens by which a cache exceeds a sequence, for the steps that run before they are captured."""


@dataclass(frozen=True)
class WrittenText:
    """A text that somebody wrote, and what it is called: `the workload's text`."""

    records: Sequence[Record]
    name: str


@dataclass(frozen=True)
class TokenizedText:
    """A text's ids one after the other, and those that the tokenizer puts `before` each text and `after` it."""

    ids: list[int]
    before: list[int]
    after: list[int]

    def sequences(self, length: int) -> list[list[int]]:
        """Consecutive sequences of `length`, what is added included; the rest of the text is left out."""
        sequences: list[list[int]] = []
        at = 0
        while True:
            begins = self.ids[at : at + len(self.before)] == self.before  # as a chat by its template does
            before, after = [] if begins else self.before, self.after
            room = length - len(before) - len(after)
            if room < 1:
                before, after, room = [], [], length
            if at + room > len(self.ids):
                return sequences
            sequences.append([*before, *self.ids[at : at + room], *after])
            at += room


@dataclass(frozen=True)
class Tokens:
    """Sequences [count, length] of ids; `source` says where they come from, `written` how many of the first are
    somebody's text."""

    ids: torch.Tensor
    source: str
    written: int = 0


def text_of(model_dir: Path, own: str = "") -> WrittenText | None:
    """The workload's `own` text, else that of the model's directory. Raises ModelRefused for broken JSON."""
    if own:
        try:
            return WrittenText(records(own), "the workload's text")
        except ValueError as error:
            raise ModelRefused(FIELD, "", str(error)) from None
    name = next((name for name in TEXT_FILES if (model_dir / name).is_file()), "")
    if not name:
        return None
    with (model_dir / name).open(encoding="utf-8-sig", errors="replace") as stream:
        text = stream.read(READ_CHARACTERS)
    return WrittenText([text], f"the model's {name}")


def sequence_length(traffic: Traffic, generates: bool, vocabulary: int) -> int:
    """Tokens of a sequence: those of a request, prompt and output, as far as a batch's logits fit LOGITS_BYTES."""
    wanted = traffic.prompt_tokens + (traffic.output_tokens if generates else 0)
    return max(1, min(wanted, LOGITS_BYTES // (4 * vocabulary * traffic.batch)))


def check(model_dir: Path, own: str, length: int, vocabulary: int | None) -> None:
    """Checks the tokenizer and the text. `vocabulary` is None for a model that reads no text.

    Raises ModelRefused when there is a tokenizer.json that is no tokenizer or fails on the text. It also raises it when
    the workload's `own` text cannot be used: that needs a tokenizer, ids below `vocabulary`, and at least one sequence
    of `length` tokens.
    """
    text = text_of(model_dir, own)
    if own and vocabulary is None:
        raise ModelRefused(FIELD, "", "the model reads no text")
    if not (model_dir / TOKENIZER).is_file():
        if own:
            raise ModelRefused(FIELD, "", f"the model has no {TOKENIZER}, which the text takes")
        return
    tokenized = _tokenize(model_dir, text.records if text else (), max(CHECKED_IDS, length))
    if own and not tokenized.sequences(length):
        reason = (
            f"the text has {len(tokenized.ids):,} tokens, fewer than the {length:,} of one sequence of the workload"
        )
        raise ModelRefused(FIELD, "", reason)
    highest = max([*tokenized.before, *tokenized.ids, *tokenized.after], default=0)
    if own and vocabulary is not None and highest >= vocabulary:
        reason = f"the tokenizer gives the id {highest:,}, but the model knows {vocabulary:,} tokens"
        raise ModelRefused(TOKENIZER, "", reason)


def _tokenize(model_dir: Path, records: Sequence[Record], most: int) -> TokenizedText:
    """At most `most` ids of the records by the model's tokenizer, in a process of its own. Raises ModelRefused."""
    command = [sys.executable, "-P", tokenize_text.__file__]
    request = json.dumps({"directory": str(model_dir), "records": list(records), "most": most})
    try:
        done = subprocess.run(command, input=request, capture_output=True, text=True, timeout=TOKENIZE_SECONDS)
    except subprocess.TimeoutExpired:
        reason = f"tokenizing takes longer than {TOKENIZE_SECONDS} seconds"
        raise ModelRefused(TOKENIZER, "", reason) from None
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit code {done.returncode}"
        raise ModelRefused(TOKENIZER, "", f"the tokenizers library ends its process on it ({how})")
    answer = json.loads(done.stdout.splitlines()[-1])
    if "refused" in answer:
        raise ModelRefused(TOKENIZER, "", answer["refused"])
    return TokenizedText(**answer)


def for_quality(
    model: torch.nn.Module,
    model_dir: Path,
    own: str,
    writes: bool,
    vocabulary: int,
    length: int,
    most: int,
    keep_going: Callable[[], bool] = lambda: True,
) -> Tokens:
    """About `most` tokens: the workload's or the model's text, what the model writes where that is too short, else
    random ids.

    `writes`: whether the weights are trained, so that the text that the model generates has meaning. What it
    writes is cut short where `keep_going`, called after each token, is false.
    """
    text = from_text(model_dir, own, length, most, vocabulary)
    missing = most - (text.ids.numel() if text else 0)
    if not writes or missing < length:
        return text or random(vocabulary, length, most)
    before = _tokenize(model_dir, (), 0).before if (model_dir / TOKENIZER).is_file() else []
    more = generate_texts(
        model, vocabulary, length, missing, keep_going, [token for token in before if token < vocabulary]
    )
    if text is None:
        return more
    if more.ids.shape[1] < length:
        return text
    return Tokens(torch.cat([text.ids, more.ids]), f"{text.source} and {more.source}", text.written)


def from_text(model_dir: Path, own: str, length: int, most: int, vocabulary: int) -> Tokens | None:
    """The workload's `own` text, else the model directory's, by the model's tokenizer.

    It gives consecutive sequences of `length`, at most `most` tokens together, each between the tokens that the
    tokenizer adds to a text: models such as Gemma's are out of their depth without the first.

    None when the text or the tokenizer is missing, when the text is too short, and when it has ids that are not below
    `vocabulary`. Raises ModelRefused when tokenizing fails.
    """
    text = text_of(model_dir, own)
    if text is None or not (model_dir / TOKENIZER).is_file():
        return None
    sequences = _tokenize(model_dir, text.records, most).sequences(length)[: most // length]
    if not sequences or max(map(max, sequences)) >= vocabulary:
        return None
    return Tokens(torch.tensor(sequences), text.name, len(sequences))


def random(vocabulary: int, length: int, most: int) -> Tokens:
    """Uniformly random ids, the same each time."""
    generator = torch.Generator().manual_seed(20)
    ids = torch.randint(vocabulary, (-(-most // length), length), generator=generator)
    return Tokens(ids, "random token ids")


def generate_texts(
    model: torch.nn.Module,
    vocabulary: int,
    length: int,
    most: int,
    keep_going: Callable[[], bool] = lambda: True,
    before: Sequence[int] = (),
) -> Tokens:
    """What the model writes at temperature 1 behind `before` and a random token, until `keep_going` is false."""
    torch.manual_seed(20)
    device = next(model.parameters()).device
    count = -(-most // length)
    first = torch.tensor(before[: max(0, length - 2)], dtype=torch.int64).expand(count, -1)
    starts = torch.cat([first, torch.randint(vocabulary, (count, 1))], 1).to(device)
    written = []
    for group in starts.split(WRITTEN_AT_ONCE):
        written.append(_write(model, group, length, keep_going))
    whole = [ids for ids in written if ids.shape[1] == written[0].shape[1]]
    return Tokens(torch.cat(whole), "tokens sampled from the model itself")


def under_graphs(model: torch.nn.Module) -> bool:
    """Whether the model writes under CUDA graphs. Their static cache takes a CPU, which has none, twice as long."""
    return next(model.parameters()).is_cuda and decoder.refusal(model) is None


@torch.no_grad()
def _write(model: torch.nn.Module, starts: torch.Tensor, length: int, keep_going: Callable[[], bool]) -> torch.Tensor:
    """Sequences [count, length] that begin with `starts`, shorter where `keep_going` ends them: under CUDA graphs where
    the model is known to run under them, since `generate` launches each operation of each token from the host.
    """
    if under_graphs(model):
        return _write_by_graphs(model, starts, length, keep_going)
    ids = model.generate(  # type: ignore[operator]
        starts,
        attention_mask=torch.ones_like(starts),
        do_sample=True,
        top_k=0,
        max_new_tokens=length - starts.shape[1],
        min_new_tokens=length - starts.shape[1],
        eos_token_id=None,
        pad_token_id=0,
        stopping_criteria=[lambda ids, _, **__: torch.full(ids.shape[:1], not keep_going(), device=ids.device)],
    )
    return ids.cpu()


def _write_by_graphs(
    model: torch.nn.Module, starts: torch.Tensor, length: int, keep_going: Callable[[], bool]
) -> torch.Tensor:
    count, begun = starts.shape
    session = SamplingSession(model, count, begun, length + WARM_UP_ROOM, lambda function: function)
    session.capture()
    session.prefill(starts)
    ids = [starts, session.token.clone()]
    for _ in range(length - begun - 1):
        if not keep_going():
            break
        session.step()
        ids.append(session.token.clone())
    return torch.cat(ids, 1).cpu()


def groups(tokens: Tokens, batch: int) -> Iterator[torch.Tensor]:
    yield from tokens.ids.split(batch)
