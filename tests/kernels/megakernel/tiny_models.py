"""Small decoders of every family, their prompts' caches, and what transformers makes of them."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from kernels.megakernel.interpret import Gpu
from kernels.megakernel.program import Layout, Program, build
from kernels.megakernel.shape import shape_of
from kernels.megakernel.uploads import uploads

COMMON: dict[str, Any] = {"num_hidden_layers": 2, "max_position_embeddings": 512, "pad_token_id": 0}
LLAMA3_ROPE = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip


def _llama(**sizes: Any) -> torch.nn.Module:
    return LlamaForCausalLM(LlamaConfig(**COMMON, **sizes))


MODELS = {
    # 14 query heads on 2, hidden no power of two, a vocabulary that ends inside a tile
    "llama": lambda: _llama(
        hidden_size=112, intermediate_size=208, num_attention_heads=14, num_key_value_heads=2, head_dim=64,
        vocab_size=333, tie_word_embeddings=True, rope_parameters=LLAMA3_ROPE,
    ),
    "llama-128": lambda: _llama(
        hidden_size=256, intermediate_size=1040, num_attention_heads=2, num_key_value_heads=1, head_dim=128,
        vocab_size=129, tie_word_embeddings=False, rms_norm_eps=1e-5,
    ),
    "qwen2": lambda: Qwen2ForCausalLM(
        Qwen2Config(
            **COMMON, hidden_size=192, intermediate_size=176, num_attention_heads=3, num_key_value_heads=1,
            vocab_size=200, tie_word_embeddings=True,
        )
    ),
    "qwen3": lambda: Qwen3ForCausalLM(
        Qwen3Config(
            **COMMON, hidden_size=80, intermediate_size=144, num_attention_heads=4, num_key_value_heads=2,
            head_dim=128, vocab_size=97, tie_word_embeddings=True,
        )
    ),
}  # fmt: skip


@cache
def model(name: str) -> Any:
    """The model in bf16, its biases and norms too drawn at random."""
    torch.manual_seed(7)
    made = MODELS[name]().to(torch.bfloat16).eval()
    with torch.no_grad():
        for key, parameter in made.named_parameters():
            if key.endswith("bias"):
                parameter.normal_(0, 0.5)
            elif parameter.ndim == 1:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0, parameter.shape[1] ** -0.5)
    return made


@cache
def exact(name: str) -> Any:
    """The same weights in float32."""
    made = MODELS[name]()
    made.load_state_dict(model(name).state_dict())
    return made.float().eval()


def program_of(name: str, **layout: Any) -> Program:
    """The model's program on 6 SMs unless `layout` says otherwise."""
    return build(shape_of(model(name).config.to_dict()), Layout(**({"sms": 6, "splits": 4} | layout)))


@dataclass(frozen=True)
class Start:
    """A prompt's caches as `Gpu` wants them, and the token that follows, [batch]."""

    prompt: torch.Tensor
    keys: np.ndarray
    values: np.ndarray
    first: np.ndarray


@torch.no_grad()
def start(name: str, batch: int, length: int, capacity: int) -> Start:
    """A random prompt, its keys and values rounded to bf16. Rows beyond it are NaN, so that reading one shows."""
    reference = exact(name)
    chance = torch.Generator().manual_seed(batch * 1000 + length)
    prompt = torch.randint(0, reference.config.vocab_size, (batch, length), generator=chance)
    out = reference(prompt, use_cache=True)
    caches = []
    for part in ("keys", "values"):
        rows = torch.stack([getattr(layer, part) for layer in out.past_key_values.layers]).transpose(2, 3)
        padded = torch.full((*rows.shape[:2], capacity, *rows.shape[3:]), float("nan"))
        padded[:, :, :length] = rows.to(torch.bfloat16).float()
        caches.append(padded.numpy())
    return Start(prompt, caches[0], caches[1], out.logits[:, -1].argmax(-1).numpy())


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    """bf16 as uint16; everything else as it is."""
    tensor = tensor.detach().contiguous()
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


@cache
def arrays_of(name: str, layout: Layout) -> dict[str, np.ndarray]:
    """What is uploaded for the model's own program."""
    program = build(shape_of(model(name).config.to_dict()), layout)
    return {key: as_numpy(tensor) for key, tensor in uploads(model(name), program, 256).items()}


def gpu(name: str, program: Program, begin: Start, count: int, **options: Any) -> Gpu:
    """The interpreter with this program in place of the model's own; the weights are packed for the model's own."""
    arrays = arrays_of(name, replace(program.layout)) | {
        "program": np.concatenate(program.instructions),
        "program_start": program.starts,
    }
    caches = begin.keys.copy(), begin.values.copy()
    return Gpu(program, arrays, *caches, begin.first, begin.prompt.shape[1], count, **options)


@torch.no_grad()
def logits_after(reference: Any, begin: Start, tokens: np.ndarray) -> np.ndarray:
    """What `reference` makes of the prompt, its first token and all but the last of `tokens` [count, batch]."""
    followed = torch.from_numpy(np.concatenate([begin.first[None], tokens[:-1]])).T
    out = reference(torch.cat([begin.prompt, followed], dim=1)).logits
    return out[:, begin.prompt.shape[1] :].transpose(0, 1).float().numpy()
