"""What a model loses on a text when its weights are held in each format, beside bf16's own arithmetic.

    python -m benchmarks.rounding MODEL_DIRECTORY RESULT.json [--append] [--weights NAME] [--text FILE] [--tokens N]

The directory has trained weights and `tokenizer.json`, and `quality.txt` where no text is given. Each row but that of
bf16 is the model with the values of its codes, computed in float32, so that the loss is that of the rounding alone.
"""

import argparse
import copy
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kernels import runners
from kernels.measure.environment import environment_info
from kernels.model.decoder import Decoder
from kernels.model.rounding import RoundedWeights, Rounding, round_weights
from workers.documents.base import Document
from workers.documents.traffic import Traffic
from workers.measuring import quality, texts

TRAFFIC = Traffic(prompt_tokens=128, output_tokens=64)


@dataclass(frozen=True)
class Format:
    """Weights whose `group` columns of a row share a scale; None: the whole row does."""

    weights: str
    group: int | None
    bytes_per_weight: float
    rounding: str = "nearest"


FORMATS = (
    Format("int8", 32, 1 + 2 / 32),
    Format("fp8", None, 1),
    Format("fp8", None, 1, "gptq"),
    Format("nvfp4", 16, 0.5 + 1 / 16),
    Format("nvfp4", 16, 0.5 + 1 / 16, "gptq"),
    Format("int4", 32, 0.5 + 2 / 32),
    Format("int4", 32, 0.5 + 2 / 32, "gptq"),
    Format("int4_zero", 128, 0.5 + 4 / 64),
    Format("int4_minimum", 32, 0.5 + 4 / 32),
)


KEY = ("model", "weights", "group", "rounding")


class Row(Document):
    """One format on one model. `kl`, in nats, and `top1_changed` are from float32's."""

    model: str
    weights: str
    group: int | None
    rounding: str
    bytes_per_weight: float
    seconds: float
    tokens: int
    perplexity: float
    kl: float
    top1_changed: float


@torch.no_grad()
def with_values(model: Any, rounded: RoundedWeights) -> Any:
    """The transformers `model` with the values of `rounded` in its matrices; the embedding stays. Changes the model."""
    dtype = model.lm_head.weight.dtype
    if rounded.lm_head is not None:
        model.lm_head.weight = torch.nn.Parameter(rounded.lm_head.values(dtype), requires_grad=False)
    compact = Decoder(model)  # its packed matrices are the model's own
    for layer, codes_of in zip(compact.layers, rounded.layers, strict=True):
        for name, codes in codes_of.items():
            weight = getattr(layer if name in layer._fields else layer.dense, name)
            (weight if isinstance(weight, Tensor) else weight[0]).copy_(codes.values(dtype))
    return model


def held_in(model: Any, form: Format) -> Any:
    """A copy of the bf16 `model` in float32, with the values of its weights in the format."""
    copied = copy.deepcopy(model)
    rounded = round_weights(copied, Decoder(copied), form.weights, Rounding(method=form.rounding))  # type: ignore[arg-type]
    return with_values(copied.float(), rounded)


def measure_formats(
    directory: Path, text: str, device: str, max_tokens: int, weights: Sequence[str] = ()
) -> Iterator[Row]:
    """bf16's own arithmetic, then every format, or those of these weights. Raises ValueError where there is no text."""
    config = json.loads((directory / "config.json").read_text("utf-8"))
    exact, model = (runners.load(directory, config, dtype=dtype, device=device) for dtype in ("fp32", "bf16"))
    words = int(model.config.vocab_size)  # type: ignore[union-attr, arg-type]
    length = texts.sequence_length(TRAFFIC, True, words)
    tokens = texts.from_text(directory, text, length, max_tokens, words)
    if tokens is None:
        raise ValueError(f"{directory}: no tokenizer.json or no quality.txt of {length} tokens or more")
    for form in (Format("bf16", None, 2), *FORMATS):
        if weights and form.weights not in weights:
            continue
        start = time.monotonic()
        rounded = model if form.weights == "bf16" else held_in(model, form)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = time.monotonic() - start
        yield _row(directory.name, form, seconds, exact, rounded, tokens)


def _row(name: str, form: Format, seconds: float, exact: Any, rounded: Any, tokens: texts.Tokens) -> Row:
    reference, after = (runners.runner("eager", folder) for folder in (exact, rounded))
    compared = quality.compare(reference, after, after, tokens, 1, lambda done: True)
    judged = quality.judge(*compared, tokens, False, None)
    assert judged.perplexity_after is not None
    assert judged.kl_after is not None
    assert judged.top1_after is not None
    return Row(
        model=name,
        **vars(form),
        seconds=round(seconds, 2),
        tokens=judged.tokens,
        perplexity=judged.perplexity_after,
        kl=judged.kl_after,
        top1_changed=judged.top1_after,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("directory", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--append", action="store_true", help="keep the other rows in the file")
    parser.add_argument("--weights", action="append", help="only these; repeatable")
    parser.add_argument("--text", type=Path)
    parser.add_argument("--tokens", type=int, default=8_192, help="the most tokens of the text")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    given = parser.parse_args()
    text = given.text.read_text("utf-8") if given.text else ""
    kept = json.loads(given.result.read_text("utf-8"))["rows"] if given.append and given.result.exists() else []
    rows = {tuple(row[name] for name in KEY): row for row in kept}
    document = environment_info(device=given.device)
    for row in measure_formats(given.directory, text, given.device, given.tokens, given.weights or ()):
        rows[tuple(getattr(row, name) for name in KEY)] = row.model_dump()
        document["rows"] = list(rows.values())
        given.result.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
        print(f"{row.weights:6} {row.rounding:8} KL {row.kl:.6f}, other tokens {row.top1_changed:.2%}", flush=True)


if __name__ == "__main__":
    main()
