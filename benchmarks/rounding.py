"""What rounding the weights of a model to int8, fp8 and NVFP4 costs, to nearest and by GPTQ, on a text.

    python -m benchmarks.rounding MODEL_DIRECTORY RESULT.json [--text FILE] [--device cuda]

The directory has trained weights and `tokenizer.json`, and `quality.txt` where no text is given. Each row is the model
with the values of its codes, computed in float32, so that the loss is that of the rounding alone.
"""

import argparse
import copy
import json
import time
from pathlib import Path
from typing import Any

import torch

from kernels import runners
from kernels.measure.environment import environment_info
from kernels.model.decoder import Decoder
from kernels.model.rounding import RoundedWeights, Rounding, rounded_weights
from workers.documents.base import Document
from workers.documents.traffic import Traffic
from workers.measuring import quality, texts

ROUNDED = [("int8", "nearest"), *((weights, method) for weights in ("fp8", "nvfp4") for method in ("nearest", "gptq"))]
TRAFFIC = Traffic(prompt_tokens=128, output_tokens=64)
MOST_TOKENS = 8_192


class Row(Document):
    """One precision. `kl` in nats and `disagreement` are from float32's; the intervals of `text` are of 95 %."""

    weights: str
    rounding: str
    seconds: float
    tokens: int
    kl: float
    disagreement: float
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    perplexity: float
    perplexity_ratio_low: float
    perplexity_ratio_high: float


@torch.no_grad()
def with_values(model: Any, found: RoundedWeights) -> Any:
    """The transformers `model` with the values of `found` in its matrices; the embedding stays. Changes the model."""
    dtype = model.lm_head.weight.dtype
    model.lm_head.weight = torch.nn.Parameter(found.lm_head.values(dtype), requires_grad=False)
    compact = Decoder(model)  # its packed matrices are the model's own
    for layer, held in zip(compact.layers, found.layers, strict=True):
        for name, codes in held.items():
            own = getattr(layer if name in layer._fields else layer.dense, name)
            (own if isinstance(own, torch.Tensor) else own[0]).copy_(codes.values(dtype))
    return model


def measured(directory: Path, text: str, device: str) -> list[Row]:
    """bf16, then every precision and method. Raises ValueError where there is no text."""
    config = json.loads((directory / "config.json").read_text("utf-8"))
    exact, model = (runners.load(directory, config, dtype=dtype, device=device) for dtype in ("fp32", "bf16"))
    words = int(model.config.vocab_size)  # type: ignore[union-attr, arg-type]
    length = texts.sequence_length(TRAFFIC, True, words)
    tokens = texts.from_text(directory, text, length, MOST_TOKENS, words)
    if tokens is None:
        raise ValueError(f"{directory}: no tokenizer.json or no quality.txt of {length} tokens or more")
    rows = [_row("bf16", "nearest", 0.0, exact, copy.deepcopy(model), tokens)]
    for weights, method in ROUNDED:
        own = copy.deepcopy(model)
        start = time.monotonic()
        found = rounded_weights(own, Decoder(own), weights, Rounding(method=method))  # type: ignore[arg-type]
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = time.monotonic() - start
        rows.append(_row(weights, method, seconds, exact, with_values(own.float(), found), tokens))
    return rows


def _row(weights: str, method: str, seconds: float, exact: Any, own: Any, tokens: texts.Tokens) -> Row:
    reference, after = (runners.runner("eager", each) for each in (exact, own.float()))
    compared = quality.compare(reference, reference, after, tokens, 1, lambda done: True)
    found = quality.judge(*compared, tokens, False, None)
    text, kl, other = found.text, found.kl_after, found.top1_after
    assert text is not None
    assert kl is not None
    assert other is not None
    return Row(
        weights=weights,
        rounding=method,
        seconds=round(seconds, 2),
        tokens=found.tokens,
        kl=kl,
        disagreement=other,
        accuracy=text.accuracy_after.value,
        accuracy_low=text.accuracy_after.low,
        accuracy_high=text.accuracy_after.high,
        perplexity=text.perplexity_after.value,
        perplexity_ratio_low=text.perplexity_ratio.low,
        perplexity_ratio_high=text.perplexity_ratio.high,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("directory", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    given = parser.parse_args()
    text = given.text.read_text("utf-8") if given.text else ""
    rows = [row.model_dump() for row in measured(given.directory, text, given.device)]
    found = {**environment_info(device=given.device), "model": given.directory.name, "rows": rows}
    given.result.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    for row in rows:
        print(f"{row['weights']:6} {row['rounding']:8} KL {row['kl']:.6f}, other tokens {row['disagreement']:.2%}")


if __name__ == "__main__":
    main()
