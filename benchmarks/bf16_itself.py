"""How far bf16 itself is from float32, and how far bf16 runners are from each other: what defaults of quality rest on.

    python -m benchmarks.bf16_itself RESULT.json MODEL...

MODEL is a directory with trained weights, `tokenizer.json` and a text, as samples/voice-agent, or an entry of the
catalogue, whose weights come from a seed and whose ids are random. transformers in bf16 is what runs today; the other
rows are the same model in bf16 with other roundings, which lose nothing beside it. Their rises over it, with 95 %
intervals, are what a default has to allow.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from kernels import runners
from kernels.measure.environment import environment_info
from kernels.model_files import catalogue
from kernels.runners import Runner
from workers.documents.base import Document
from workers.documents.measurement import Interval
from workers.documents.traffic import Traffic
from workers.measuring import quality, texts
from workers.stats.intervals import paired_difference

TRAFFIC = Traffic(prompt_tokens=128, output_tokens=64)
TOKENS = 4_224
"""Whole sequences of TRAFFIC with MIN_TOKENS or more."""
OTHERS = ("attention op by op", "compiled")


class Row(Document):
    """One bf16 runner over the same tokens: its distance from float32, and the rise over `eager` of the same model.

    `kl` and `kl_rise` are in nats; the first row of a model is `eager` itself and has no rises.
    """

    model: str
    weights: str
    runner: str
    source: str
    tokens: int
    kl: float
    disagreement: float
    rise: Interval | None = None
    kl_rise: Interval | None = None


def _runner(name: str, model: Any) -> Runner:
    if name == "compiled":
        runner = runners.runner("compiled", model)
        runner.prepare(1, TRAFFIC.prompt_tokens, TRAFFIC.output_tokens)
        return runner
    if name in OTHERS:
        model.set_attn_implementation("eager")
    return runners.runner("eager", model)


@torch.no_grad()
def rows(named: str, device: str) -> Iterator[Row]:
    """Rows of a model. Raises KeyError for an unknown entry, ValueError for a directory without a text of its own."""
    directory = Path(named) if (Path(named) / "config.json").is_file() else None
    config = json.loads((directory / "config.json").read_text("utf-8")) if directory else catalogue.entry(named)[0]

    def load(dtype: str) -> Any:
        return runners.load(directory, config, seed=0, generated=directory is None, dtype=dtype, device=device)

    exact, bf16 = runners.runner("eager", load("fp32")), runners.runner("eager", load("bf16"))
    words = int(exact.model.config.vocab_size)
    length = texts.sequence_length(TRAFFIC, True, words)
    tokens = texts.from_text(directory, "", length, TOKENS, words) if directory else texts.random(words, length, TOKENS)
    if tokens is None:
        raise ValueError(f"{named}: no tokenizer.json or no text of {length} tokens or more")
    kind = {"model": Path(named).name, "weights": "trained" if directory else "generated", "source": tokens.source}
    for name in OTHERS:
        done, before, after = quality.compare(exact, bf16, _runner(name, load("bf16")), tokens, 1, lambda _: True)
        if name == OTHERS[0]:
            yield Row(**kind, runner="eager", tokens=done, kl=before.mean_kl, disagreement=before.disagreement)
        yield Row(
            **kind,
            runner=name,
            tokens=done,
            kl=after.mean_kl,
            disagreement=after.disagreement,
            rise=paired_difference(list(before.blocks()), list(after.blocks())),
            kl_rise=paired_difference(list(before.kl_blocks()), list(after.kl_blocks())),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("result", type=Path)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    given = parser.parse_args()
    document: dict[str, Any] = {**environment_info(device=given.device), "rows": []}
    for named in given.models:
        for row in rows(named, given.device):
            document["rows"].append(row.model_dump())
            given.result.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
            risen = f", rises by at most {row.rise.high:+.2%}" if row.rise else ""
            print(f"{row.model} {row.runner}: KL {row.kl:.6f}, other tokens {row.disagreement:.2%}{risen}", flush=True)


if __name__ == "__main__":
    main()
