"""Attention shapes. Imports without torch."""

import random

from kernels.cases.random_sizes import random_size
from kernels.ops import AttentionCase, Case, DType, StepAttentionCase

TOKENS = 16_384
"""Tokens of a prefill case in all, as attention papers count."""

CONTEXT = 131_072
"""Keys of the longest cache."""

PAGES = (1, 8, 16, 64)
"""Tokens of a page."""

SCORES = 1 << 30
"""Scores of a drawn case that needs a mask, for which torch's own attention keeps them all in memory."""


def bench(cpu: bool) -> list[Case]:
    """What `bench attention` times: real models' shapes on a GPU, tiny ones on a CPU."""
    return _tiny() if cpu else [*_prefill(), *_several(), *_decode()]


def check(dtype: DType, cpu: bool) -> list[Case]:
    """What `check attention` proves in one dtype: odd and unequal lengths, grouped heads, windows; then prefill cases
    to 16k tokens and decode cases to 128k keys at random over all that a case can be, the same in every run; then some
    of them with sinks.
    """
    shapes = ((64, 64, None), (1, 77, None), (9, 77, 16))
    named: list[Case] = [
        AttentionCase(
            kind="decode" if q_len == 1 else "prefill",
            head_dim=64,
            heads=8,
            kv_heads=2,
            batch=2,
            q_len=q_len,
            kv_len=kv_len,
            dtype=dtype,
            kv_dtype=dtype,
            window=window,
        )
        for q_len, kv_len, window in shapes
    ]
    rng, count = random.Random(f"prefill {dtype}"), 4 if cpu else 40
    prefill = [_random_prefill(rng, dtype, 40 if cpu else TOKENS) for _ in range(count)]
    drawn = [*prefill, *(_random_decode(rng, dtype, 120 if cpu else CONTEXT) for _ in range(count))]
    return [*named, *drawn, *(case.model_copy(update={"sinks": True}) for case in (*named, *drawn[::4]))]


def _random_prefill(rng: random.Random, dtype: DType, longest: int) -> AttentionCase:
    head_dim, q_len = rng.choice((64, 96, 128, 256)), random_size(rng, 2, longest)
    lengths = _packed(rng, longest) if rng.random() < 0.2 else None
    q_len = q_len if lengths is None else sum(lengths)
    kv_len = q_len if lengths is not None or rng.random() < 0.67 else random_size(rng, 1, longest)
    causal, window = rng.random() < 0.6, rng.choice((None, None, None, 1, longest // 4))
    masked = window is not None or lengths is not None or (causal and q_len != kv_len)
    batch = 1 if lengths is not None else random_size(rng, 1, max(1, min(16, longest // max(q_len, kv_len))))
    most_heads = min(2048 // head_dim, SCORES // (batch * max(1, q_len * kv_len)) if masked else 32)
    kv_heads, group = _heads(rng, max(1, most_heads))
    return AttentionCase(
        kind="prefill",
        head_dim=head_dim,
        heads=kv_heads * group,
        kv_heads=kv_heads,
        batch=batch,
        q_len=q_len,
        kv_len=kv_len,
        causal=causal,
        dtype=dtype,
        kv_dtype=dtype,
        window=window,
        softcap=rng.choice((None, None, None, 30.0)),
        lengths=lengths,
    )


def _packed(rng: random.Random, longest: int) -> tuple[int, ...]:
    """Lengths of up to 16 sequences, some of them 0, that add up to `longest` at most."""
    count = rng.randint(1, 16)
    max_length = random_size(rng, 1, max(1, longest // count))
    return tuple(rng.randint(0, max_length) for _ in range(count))


def _heads(rng: random.Random, max_heads: int) -> tuple[int, int]:
    """KV heads and the query heads of each, at most `max_heads` query heads in all."""
    kv_heads = rng.choice([count for count in (1, 2, 4, 8, 16, 32) if count <= max_heads])
    return kv_heads, rng.choice([group for group in (1, 1, 3, 4, 8) if kv_heads * group <= max_heads])


def _random_decode(rng: random.Random, dtype: DType, longest: int) -> AttentionCase:
    head_dim, kv_len = rng.choice((64, 96, 128, 256)), random_size(rng, 1, longest)
    batch = random_size(rng, 1, max(1, min(64, longest // kv_len)))
    kv_heads, group = _heads(rng, min(64, 4096 // head_dim))
    paged = rng.random() < 0.5
    lengths = tuple(rng.choice((0, 1, kv_len, rng.randint(0, kv_len))) for _ in range(batch))
    return AttentionCase(
        kind="decode",
        head_dim=head_dim,
        heads=kv_heads * group,
        kv_heads=kv_heads,
        batch=batch,
        q_len=rng.choice((1, 1, 1, min(kv_len, 2), min(kv_len, 64 // group, 16))),
        kv_len=kv_len,
        causal=rng.random() < 0.8,
        dtype=dtype,
        kv_dtype="fp8" if rng.random() < 0.25 else dtype,
        window=rng.choice((None, None, None, 1, longest // 4)),
        softcap=rng.choice((None, None, None, 30.0)),
        paged=paged,
        page_size=rng.choice((None, 5, 32, 64, 256)) if paged else None,
        kv_lengths=lengths if rng.random() < 0.6 else None,
    )


def _prefill() -> list[Case]:
    return [
        AttentionCase(
            kind="prefill",
            head_dim=head_dim,
            heads=2048 // head_dim,
            kv_heads=2048 // head_dim,
            batch=TOKENS // length,
            q_len=length,
            kv_len=length,
            causal=causal,
        )
        for head_dim in (64, 128)
        for length in (1024, 4096, 16_384)
        for causal in (False, True)
    ]


def _several() -> list[Case]:
    """Sequences of unequal lengths, packed one behind the other."""
    lengths = tuple(length for length in (4096, 2048, 1024, 512, 256, 128, 77, 51) for _ in range(2))
    tokens = sum(lengths)
    return [
        case.model_copy(update={"batch": 1, "q_len": tokens, "kv_len": tokens, "lengths": lengths})
        for case in _prefill()
        if isinstance(case, AttentionCase) and case.causal and case.q_len == TOKENS
    ]


def _decode() -> list[Case]:
    shapes = ((64, 1, 192), (64, 1, 4096), (64, 16, 4096), (64, 64, 8192))
    targets = [(head_dim, *lengths) for head_dim in (64, 128) for lengths in ((8, 8192), (1, 65_536))]
    plain = [_step(*shape) for shape in (*shapes, *targets, (64, 1, 131_072))]
    paged = [_step(64, 8, 8192).model_copy(update={"paged": True, "page_size": size}) for size in (16, 64)]
    fp8 = [_step(*target).model_copy(update={"kv_dtype": "fp8"}) for target in targets]
    return [*plain, *paged, *fp8]


def _step(head_dim: int, batch: int, kv_len: int) -> AttentionCase:
    return AttentionCase(kind="decode", head_dim=head_dim, heads=32, kv_heads=8, batch=batch, q_len=1, kv_len=kv_len)


def _tiny() -> list[Case]:
    shapes = (("prefill", 128, 128), ("decode", 1, 192))
    return [
        AttentionCase(
            kind=kind, head_dim=64, heads=4, kv_heads=2, batch=1, q_len=q, kv_len=kv, dtype="fp32", kv_dtype="fp32"
        )
        for kind, q, kv in shapes
    ]


def check_step(dtype: DType, cpu: bool) -> list[Case]:
    """What `check step_attention` proves in one dtype: contexts of one and of several chunks, windows, batches;
    cases at random to 128k keys and 32 sequences; some with norms, some with sinks; then some of them on pages.
    """
    shapes = ((64, 8, 2, 1, 33, None), (128, 6, 1, 3, 200, None), (64, 4, 4, 2, 100, 16), (128, 8, 1, 1, 2100, None))
    rng = random.Random(f"step {dtype}")
    cases: list[Case] = [
        _step_case(dtype, *shape) for shape in (*shapes, *(_random_step(rng) for _ in range(0 if cpu else 12)))
    ]
    cases += [case.model_copy(update=more) for more in ({"norm_eps": 1e-6}, {"sinks": True}) for case in cases[:3]]
    paged = [cases[0], cases[2], *cases[4::3]]
    return cases + [case.model_copy(update={"paged": True, "page_size": rng.choice(PAGES)}) for case in paged]


def _random_step(rng: random.Random) -> tuple[int, int, int, int, int, int | None]:
    head_dim, kv_len = rng.choice((64, 128)), random_size(rng, 1, CONTEXT)
    kv_heads, group = _heads(rng, 2048 // head_dim)
    batch = random_size(rng, 1, max(1, min(32, CONTEXT // kv_len)))
    return head_dim, kv_heads * group, kv_heads, batch, kv_len, rng.choice((None, None, 1, 512))


def _step_case(
    dtype: DType, head_dim: int, heads: int, kv_heads: int, batch: int, kv_len: int, window: int | None
) -> StepAttentionCase:
    return StepAttentionCase(
        batch=batch, heads=heads, kv_heads=kv_heads, head_dim=head_dim, kv_len=kv_len, window=window, dtype=dtype
    )


def bench_step(cpu: bool) -> list[Case]:
    """Decode steps of real models on a GPU, those of a server on pages; a tiny one on a CPU."""
    if cpu:
        return [StepAttentionCase(batch=1, heads=4, kv_heads=2, head_dim=64, kv_len=64, dtype="fp32")]
    shapes = ((32, 8, 64), (12, 2, 128))
    plain: list[Case] = [
        StepAttentionCase(batch=batch, heads=heads, kv_heads=kv_heads, head_dim=head_dim, kv_len=kv_len)
        for heads, kv_heads, head_dim in shapes
        for batch, kv_len in ((1, 192), (1, 1088), (32, 192))
    ]
    paged = {"batch": 32, "kv_len": 1088, "paged": True}
    return [*plain, *(plain[at].model_copy(update=paged) for at in (0, 3))]
