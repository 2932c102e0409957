"""A call of decode attention: chooses the splits and checks each call. Needs Triton: only `build` imports it."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import torch
import triton

from kernels.attention.decode_triton import Config, decode, row_constants
from kernels.check_args import check_out, check_presence, check_sinks, check_tensor
from kernels.cuda.arrivals import ArrivalCounters
from kernels.cuda.call import CudaCall, Prepared, Workspace, identity, launch_nothing
from kernels.cuda.strided_triton import strided
from kernels.cuda.triton_build import compiled_for
from kernels.cuda.triton_launch import prepared
from kernels.dtypes import DTYPES
from kernels.ops import AttentionCase

LOG2E = math.log2(math.e)
INTEGERS = (torch.int32, torch.int64)
MAX_CHUNKS = 16
"""The most rounds in which the last program to arrive reads the parts: it works alone."""


def processors() -> int:
    """SMs of the GPU that is compiled for, or of the current one; 2 in Triton's interpreter, so that splits merge."""
    if (gpu := compiled_for()) is not None:
        return gpu.sms
    if not torch.cuda.is_available():
        return 2
    return torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count


def split_count(pairs: int, kv_len: int, block: int, per_sm: int) -> int:
    """The splits of each pair of sequence and KV head that fill the GPU once; each has at least one tile of keys."""
    return max(1, min(processors() * per_sm // max(1, pairs), triton.cdiv(max(1, kv_len), block)))


def constants_for(case: AttentionCase, tuning: dict[str, int]) -> dict[str, int]:
    """Constants of rows and splits. Splits that need another round of reading for a few parts are left out."""
    group, warps = case.heads // case.kv_heads, tuning["warps"]
    rows = max(1, case.q_len * group)
    seen = case.kv_len if case.window is None else min(case.kv_len, case.window + case.q_len - 1)
    splits = tuning["splits"] or split_count(case.batch * case.kv_heads, seen, tuning["block"], tuning["per_sm"])
    chunk = row_constants(rows, group, case.head_dim, splits, warps)["CHUNK"]
    rest = splits % chunk
    if not tuning["splits"]:
        splits = min(splits - rest if splits > chunk and 8 * rest <= splits else splits, MAX_CHUNKS * chunk)
    return row_constants(rows, group, case.head_dim, splits, warps)


class DecodeArguments(NamedTuple):
    """The arguments of a call of decode attention, in their order: `DecodeSplit.build` says what they are."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    lengths: torch.Tensor | None = None
    page_table: torch.Tensor | None = None
    k_scale: torch.Tensor | None = None
    v_scale: torch.Tensor | None = None
    position: torch.Tensor | None = None
    sinks: torch.Tensor | None = None


def _open_layout(values: Iterable[Any]) -> tuple[Any, ...]:
    """What differs between the tensors of two right calls: the case fixes q's shape, and v has k's."""
    out, q, k, v, *rest = values
    strides = q.stride(), k.stride(), v.stride()
    return out.data_ptr(), q.data_ptr(), k.data_ptr(), v.data_ptr(), k.shape, *strides, identity(rest) if rest else ()


class Scratch:
    """The buffers between splits and merge: new parts for each call, and a counter for each pair."""

    def __init__(self, pairs: int, splits: int, rows: int, head_dim: int) -> None:
        self.pairs, self.splits, self.rows, self.head_dim = pairs, splits, rows, head_dim
        self._arrivals = ArrivalCounters(pairs)

    def take(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """parts, sums and arrivals for a call on the device's current stream. Raises as `ArrivalCounters.take`."""
        arrivals = self._arrivals.take("q", device)
        count = self.pairs * self.splits * self.rows if self.splits > 1 else 1
        parts = torch.empty(count * self.head_dim, dtype=torch.float32, device=device)
        return parts, torch.empty(count, dtype=torch.float32, device=device), arrivals


class CacheAttention(CudaCall):
    """A call of decode attention, as `DecodeSplit.build` says. Capture it with lengths or position in a tensor that
    keeps its address, and k and v with kv_len as capacity: replays read current values.
    """

    workspace = True
    open_layout = staticmethod(_open_layout)
    in_order = DecodeArguments

    def __init__(self, case: AttentionCase, tuning: dict[str, int], splits: int) -> None:
        super().__init__()
        self.case, self.tuning, self.splits = case, tuning, splits
        group = case.q_len * (case.heads // case.kv_heads)
        self.scratch = Scratch(case.batch * case.kv_heads, splits, max(1, group), case.head_dim)
        self.parts: Workspace[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = Workspace()
        scale = 1 / math.sqrt(case.head_dim)
        self.scale = scale if case.softcap is not None else scale * LOG2E

    def __call__(self, *arguments: Any, check: bool = False, out: torch.Tensor | None = None, **named: Any) -> Any:
        if check:
            given = DecodeArguments(*arguments, **named)
            check_arguments(self.case, given)
            counts_of(self.case, given).check(given.k, given.page_table)
        return super().__call__(*arguments, out=out, **named)

    def _prepare(self, check: bool, stream: int, out: Any, /, *arguments: Any, **named: Any) -> Prepared:
        given = DecodeArguments(*arguments, **named)
        case, q = self.case, given.q
        shape = (case.batch, case.q_len, case.heads, case.head_dim)
        if check:
            check_arguments(case, given)
            check_out(out, shape, (DTYPES[case.dtype],), device=q.device)
        allocate = partial(torch.empty, *shape, dtype=q.dtype, device=q.device)
        if not q.numel():
            return Prepared(allocate, lambda _: launch_nothing)
        return self._pack_args(given, counts_of(case, given), stream, allocate)

    @abstractmethod
    def _pack_args(
        self, args: DecodeArguments, counts: "KeyCounts", stream: int, allocate: Callable[[], torch.Tensor]
    ) -> Prepared:
        """The call with packed arguments, for a q that has elements."""


class DecodeCall(CacheAttention):
    """The callable of `decode_split`."""

    def __init__(self, case: AttentionCase, tuning: dict[str, int]) -> None:
        self.constants = constants_for(case, tuning)
        super().__init__(case, tuning, self.constants["SPLITS"])
        self._configs: dict[tuple[bool, int], Config] = {}

    def _pack_args(
        self, args: DecodeArguments, counts: "KeyCounts", stream: int, allocate: Callable[[], torch.Tensor]
    ) -> Prepared:
        q = args.q
        grid, warps = (self.case.kv_heads, self.splits, self.case.batch), self.tuning["warps"]
        take = partial(self.scratch.take, q.device)
        parts = self.parts.take(stream, take) if q.is_cuda else take()
        arguments = self._arguments(args, counts, parts)
        return prepared(decode, grid, stream, allocate, arguments, parts, num_warps=warps)

    def _arguments(
        self, args: DecodeArguments, key_counts: "KeyCounts", parts: tuple[torch.Tensor, ...]
    ) -> Callable[[torch.Tensor], tuple[Any, ...]]:
        """The kernel's arguments, by its output."""
        case, counts = self.case, key_counts.given
        q, k, v, _, page_table, k_scale, v_scale, _, sinks = args
        if case.kv_dtype == "fp8":
            v = _pairs(v)
        cache = (
            q if counts is None else counts, 0 if counts is None or counts.shape[0] == 1 else counts.stride(0),
            key_counts.more, key_counts.capacity,
            q if page_table is None else page_table, 0 if page_table is None else page_table.stride(0), k.shape[0],
            q if k_scale is None else k_scale, q if v_scale is None else v_scale,
        )  # fmt: skip
        config = self._config(counts is not None, 0 if page_table is None else k.shape[1])
        score = self.scale, case.softcap or 0.0, q if sinks is None else sinks
        return lambda o: (strided(q), strided(k), strided(v), strided(o), parts, cache, score, config)

    def _config(self, counted: bool, page_size: int) -> Config:
        if (counted, page_size) not in self._configs:
            case, tuning = self.case, self.tuning
            self._configs[counted, page_size] = Config(
                BLOCK_N=tuning["block"], PAGE_SIZE=page_size, Q_LEN=case.q_len, CAUSAL=case.causal and case.q_len > 1,
                WINDOW=case.window or 0, SOFTCAP=case.softcap is not None, SINKS=bool(case.sinks),
                LENGTHS=counted, FP8=case.kv_dtype == "fp8", STAGES=tuning["stages"], **self.constants,
            )  # fmt: skip
        return self._configs[counted, page_size]


class KeyCounts(NamedTuple):
    """The keys seen by each sequence: `given` + `more` (None: all), at most `capacity`."""

    given: torch.Tensor | None
    more: int
    capacity: int

    def check(self, k: torch.Tensor, page_table: torch.Tensor | None) -> None:
        """Reads lengths (or positions) and page table on the host. Raises ValueError for one beyond the cache or k."""
        name, bound = "position" if self.more else "lengths", self.capacity - self.more
        lengths = self.given.tolist() if self.given is not None else [bound]
        for sequence, count in enumerate(lengths):
            if not -self.more <= count <= bound:
                raise ValueError(f"{name} is {count} for sequence {sequence}: from {-self.more} to {bound} can be")
        if page_table is None:
            return
        for sequence, row in enumerate(page_table.tolist()):
            used = -(-(lengths[sequence if len(lengths) > 1 else 0] + self.more) // k.shape[1])
            for page in row[:used]:
                if not 0 <= page < len(k):
                    raise ValueError(f"page_table has page {page} for sequence {sequence}: there are {len(k)}")


def counts_of(case: AttentionCase, args: DecodeArguments) -> KeyCounts:
    """The counts of a call. A position is a length - 1."""
    counts = args.lengths if args.position is None else args.position
    capacity = args.k.shape[1] if args.page_table is None else args.page_table.shape[1] * args.k.shape[1]
    return KeyCounts(counts, int(args.position is not None), case.kv_len if counts is None else capacity)


def check_arguments(case: AttentionCase, args: DecodeArguments) -> None:
    """Checks a call of decode attention. Raises ValueError that names the argument."""
    if args.lengths is not None and args.position is not None:
        raise ValueError("position is given beside lengths: it says the same")
    q, dtype = args.q, DTYPES[case.dtype]
    if dtype == torch.float32 and q.is_cuda:
        raise ValueError("q is torch.float32, not torch.bfloat16 or torch.float16")
    check_tensor("q", q, (case.batch, case.q_len, case.heads, case.head_dim), (dtype,), q.device)
    check_presence("page_table", args.page_table, case.paged, f"the case's paged {case.paged}")
    for name, counts in (("lengths", args.lengths), ("position", args.position)):
        if counts is not None:
            check_tensor(name, counts, (1 if counts.shape == (1,) else case.batch,), INTEGERS, q.device)
    check_sinks(case, args.sinks, q.device)
    _check_cache_tensors(case, args)
    for name, scale in (("k_scale", args.k_scale), ("v_scale", args.v_scale)):
        check_presence(name, scale, case.kv_dtype == "fp8", f"the case's kv_dtype {case.kv_dtype}")
        if scale is not None:
            check_tensor(name, scale, (case.kv_heads,), (torch.float32,), q.device)


def _check_cache_tensors(case: AttentionCase, args: DecodeArguments) -> None:
    k, v, page_table, device = args.k, args.v, args.page_table, args.q.device
    counted = args.lengths is not None or args.position is not None
    first = None if case.paged else case.batch
    tokens = None if case.paged or counted else case.kv_len
    dtype = torch.float8_e4m3fn if case.kv_dtype == "fp8" else DTYPES[case.dtype]
    for name, tensor in (("k", k), ("v", v)):
        check_tensor(name, tensor, (first, tokens, case.kv_heads, case.head_dim), (dtype,), device)
    if v.shape != k.shape:
        raise ValueError(f"v has shape {list(v.shape)} and k {list(k.shape)}: equal ones are needed")
    capacity = k.shape[1]
    if page_table is not None:
        check_tensor("page_table", page_table, (case.batch, None), (torch.int32,), device)
        if not capacity:
            raise ValueError("k has pages of 0 tokens")
        capacity *= page_table.shape[1]
    if not counted and case.kv_len > capacity:
        raise ValueError(f"k holds {capacity} tokens of a sequence, fewer than the case's kv_len {case.kv_len}")


def _pairs(v: torch.Tensor) -> torch.Tensor:
    """An fp8 cache as int16, two values in each. Raises ValueError if a row begins at an odd value."""
    if v.shape[-1] % 2 or v.storage_offset() % 2 or any(step % 2 for step in v.stride()[:3]):
        raise ValueError(f"v has strides {v.stride()} in fp8: even ones, and an even head_dim, are needed")
    return v.view(torch.int16)
