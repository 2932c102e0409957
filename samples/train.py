"""Train samples/voice-agent: a small Llama on free text, the same on every run.

    python samples/train.py [DIRECTORY]

The text is the language reference and the docstrings that ship with every Python (PSF licence). One reference topic
in eight is kept out of training; it becomes quality.txt, on which the workbench measures the model's quality.
Takes about ten minutes on one core.
"""

import ast
import json
import math
import os
import platform
import random
import re
import sys
import sysconfig
import time
from hashlib import sha256
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SEED = 1
VOCABULARY = 4096
CONTEXT = 256
BATCH = 16
STEPS = 420
WARM_UP = 30
PEAK_RATE = 3e-3
END = "<|end|>"
PACKAGES = ("asyncio", "collections", "concurrent", "email", "http", "importlib", "json", "logging", "urllib", "xml")


def is_held_out(topic: str) -> bool:
    """Whether this topic of the language reference stays out of training: one in eight, by its name's hash."""
    return sha256(topic.encode()).digest()[0] % 8 == 0


def docstrings() -> list[str]:
    """Module, class and function docstrings of the standard library: its top level and some packages."""
    library = Path(sysconfig.get_path("stdlib"))
    files = sorted(library.glob("*.py")) + [f for p in PACKAGES for f in sorted((library / p).rglob("*.py"))]
    texts: dict[str, None] = {}
    for file in files:
        tree = ast.parse(file.read_text("utf-8", errors="replace"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text and len(text) > 80:
                    texts[text] = None
    return list(texts)


def texts() -> tuple[list[str], list[str]]:
    """Documents to train on and documents held out; no paragraph of 80 characters or more is in both."""
    held_out = [text for name, text in sorted(topics.items()) if is_held_out(name)]
    seen = {paragraph for text in held_out for paragraph in text.split("\n\n") if len(paragraph) >= 80}
    candidates = [text for name, text in sorted(topics.items()) if not is_held_out(name)] + docstrings()
    training = ["\n\n".join(p for p in text.split("\n\n") if p not in seen) for text in candidates]
    return [tidy(text) for text in training], [tidy(text) for text in held_out]


def tidy(text: str) -> str:
    """Without indentation, runs of spaces and rulers of stars or dashes; at most one empty line in a row."""
    lines = [re.sub(r"[ \t]+", " ", line).strip() for line in text.splitlines()]
    lines = [line for line in lines if not re.fullmatch(r"[*=\-~^.]{3,}", line)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def train_tokenizer(documents: list[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE of VOCABULARY entries."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=END, eos_token=END, model_max_length=4 * CONTEXT
    )


def build_model() -> LlamaForCausalLM:
    """Llama's shape in small: grouped queries (8 heads over 4), tied embeddings, 3.4 million parameters."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=256,
            intermediate_size=512,
            num_hidden_layers=4,
            num_attention_heads=8,
            num_key_value_heads=4,
            head_dim=32,
            max_position_embeddings=4 * CONTEXT,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def encode(tokenizer: PreTrainedTokenizerFast, documents: list[str]) -> torch.Tensor:
    """All documents as one int64 stream [tokens], an END after each."""
    return torch.tensor([token for text in documents for token in [*tokenizer.encode(text), tokenizer.eos_token_id]])


@torch.no_grad()
def loss_on(model: LlamaForCausalLM, stream: torch.Tensor) -> float:
    """Mean cross-entropy in nats per token over the stream, in windows of CONTEXT tokens."""
    windows = stream[: len(stream) // CONTEXT * CONTEXT].view(-1, CONTEXT)
    model.eval()
    losses = [model(input_ids=batch, labels=batch).loss.item() * len(batch) for batch in windows.split(BATCH)]
    model.train()
    return sum(losses) / len(windows)


def train(model: LlamaForCausalLM, stream: torch.Tensor) -> list[float]:
    """STEPS steps of AdamW on random windows, warm-up then a cosine down to a tenth; the loss of every step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    chooser = random.Random(SEED)
    losses: list[float] = []
    for step in range(STEPS):
        rate = min(1.0, (step + 1) / WARM_UP) * (0.55 + 0.45 * math.cos(math.pi * step / STEPS))
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * rate
        starts = [chooser.randrange(len(stream) - CONTEXT) for _ in range(BATCH)]
        batch = torch.stack([stream[start : start + CONTEXT] for start in starts])
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 20 == 0 or step == STEPS - 1:
            print(f"step {step:4d}  loss {losses[-1]:.3f}", flush=True)
    return losses


def main(directory: Path) -> dict[str, Any]:
    """Train, write the model directory, and return the measured facts of the training."""
    random.seed(SEED)
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    began = time.monotonic()
    training, held_out = texts()
    tokenizer = train_tokenizer(training)
    stream, held_out_stream = encode(tokenizer, training), encode(tokenizer, held_out)
    print(f"{len(stream):,} tokens to train on, {len(held_out_stream):,} held out", flush=True)

    model = build_model()
    before = loss_on(model, held_out_stream)
    losses = train(model, stream)
    after = loss_on(model, held_out_stream)

    directory.mkdir(parents=True, exist_ok=True)
    os.umask(0o022)
    model.generation_config.do_sample = False
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    (directory / "quality.txt").write_text("\n".join(held_out), "utf-8")
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "training_tokens": len(stream),
        "held_out_tokens": len(held_out_stream),
        "tokens_seen": STEPS * BATCH * CONTEXT,
        "training_loss_first": round(losses[0], 3),
        "training_loss_last_20_steps": round(sum(losses[-20:]) / 20, 3),
        "held_out_loss_before": round(before, 3),
        "held_out_loss_after": round(after, 3),
        "text_sha256": sha256("".join(training + held_out).encode()).hexdigest(),
        "seconds": round(time.monotonic() - began),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "voice-agent"
    print(json.dumps(main(target), indent=2))
