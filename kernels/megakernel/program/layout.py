"""How the megakernel's work is divided: SMs, splits of the keys, column parts, and the share of each SM.

Products work on *units*: 16 rows of a matrix times `k_tiles` tiles of 16 columns. Imports without torch.
"""

import itertools
from dataclasses import dataclass, replace

from kernels.megakernel.program.instructions import DOWN, GATE_UP, HEAD, OUT, QKV, ROUTER
from kernels.megakernel.program.shape import ModelShape, Unsupported
from kernels.megakernel.program.weights import CHUNK_BLOCKS, MXFP4, Format, fitting_chunk, format_of_dense
from kernels.quant.formats import head_precision

MAX_HEADS = 8
"""The most query heads of one key-value head in an instruction: the columns of a matrix instruction's tile."""
MAX_GROUPS = 8
"""The most key-value heads that one instruction attends to: each has a warp."""
HEADS_DEFAULT = 4
"""The query heads of one key-value head in an instruction of a long context; in a short one there may be fewer."""
SHORT_CONTEXT = 384
"""The largest capacity of a short context."""
ATTENDING_PARTS, LONG_OUT_PARTS = 4, 4
"""The column parts of an OUT that attends by itself, over all ranks, and of another."""
MAX_SPLITS = 32
"""The most splits of the keys."""
WHOLE_CONTEXT = 8192
"""Above this capacity an attention instruction has all query heads of its key-value head."""
SHARED_SPLITS, SHARED_FROM, NARROW_COLUMNS = 64, 48, 256
"""Neighbours share up to SHARED_SPLITS from SHARED_FROM on, or if OUT's parts have NARROW_COLUMNS or fewer."""
EVEN_SMS, EVEN_HIDDEN = 128, 1024
"""One sequence takes so many SMs at most where the hidden size is a multiple of EVEN_HIDDEN: see `default_layout`."""
SMALL_HIDDEN = 1024
"""Up to this hidden size more partials and copies of words save time: measured in megakernel.md."""
COPIES_DEFAULT, SMALL_DOWN_PARTS = 4, 4
"""Copies of words, and column parts of DOWN over all ranks, of one sequence up to SMALL_HIDDEN."""
ONE_PASS_HIDDEN = 2048
"""Up to this hidden size OUT gets twice as many partials if that saves a second pass over the keys."""
MAX_ATTENDED_COLUMNS = 256
"""The most columns of key-value heads for which OUT attends by itself; with more, splits of the keys take less time."""
MAX_GATED_KILOBYTES = 40
"""The most KB of gated values of one column part of DOWN: they must fit beside the ring."""
MAX_SHARED_COLUMNS = 1024
"""The most columns of OUT's input when SMs share its keys: a thread sends 4."""
MAX_MERGED_COLUMNS = 512
"""The most columns of OUT's input when SMs share its splits: each half of the threads holds all of its heads."""
LANES_OF_HEADS = 32
"""Where SMs share splits, a lane merges 4 dimensions of a head, and a warp has whole heads."""
SLICED_HIDDEN, SLICED_SPLITS = 8192, 16
"""From this hidden size on one sequence slices the residual, and splits the keys of a short context so often.
At 4,096 and less a sliced residual takes longer."""


@dataclass(frozen=True)
class Layout:
    """The division of the work: SMs, sequences, splits of the keys, and column parts (partials) of each product.

    - `heads`: query heads of an attention instruction, at most MAX_HEADS.
    - `splits`: 0 means no attention instructions: OUT attends by itself, with the heads of its columns.
    - `weights`: the precision in which they stream, one of `weights.PRECISIONS`; mxfp4 is that of experts alone.
    - `sliced`: an SM keeps some columns of the residual and publishes them normed; otherwise each SM keeps all columns.
    - `pairs`: SMs 2i and 2i + 1 have the same columns of OUT, and share the keys or the splits of these columns.
    - `copies`: how many copies of its words a product publishes; SM i reads copy i % copies.
    - `chunk_blocks`: the blocks of a chunk of weights.
    - `tensor_parallel_size`: the GPUs that run the model together (ranks.py); all other fields are one GPU's.
    - `expert_groups`: the groups of top_k experts that one layer's tokens may choose together; `fit_layout` sets it.
    """

    sms: int = 132
    batch: int = 1
    splits: int = 16
    out_parts: int = 1
    down_parts: int = 1
    heads: int = HEADS_DEFAULT
    weights: str = "bf16"
    sliced: bool = False
    pairs: bool = False
    copies: int = 1
    chunk_blocks: int = CHUNK_BLOCKS
    tensor_parallel_size: int = 1
    expert_groups: int = 1

    @property
    def all_sms(self) -> int:
        return self.tensor_parallel_size * self.sms

    @property
    def out_partials(self) -> int:
        """The partials of OUT that a reader adds up, of all ranks."""
        return self.tensor_parallel_size * self.out_parts

    @property
    def down_partials(self) -> int:
        """The partials of DOWN that a reader adds up, of all ranks."""
        return self.tensor_parallel_size * self.expert_groups * self.down_parts

    @property
    def form(self) -> Format:
        """The format of the weights in the stream."""
        return replace(format_of_dense(self.weights), chunk_blocks=self.chunk_blocks)

    @property
    def head_form(self) -> Format:
        """The format of the LM head's weights in the stream."""
        return replace(format_of_dense(head_precision(self.weights)), chunk_blocks=self.chunk_blocks)

    @property
    def expert_form(self) -> Format:
        """The format of the weights of GATE_UP and DOWN."""
        return replace(MXFP4, chunk_blocks=self.chunk_blocks) if self.weights == MXFP4.name else self.form

    def form_of(self, op: int) -> Format:
        """The format of a product's weights."""
        return self.head_form if op == HEAD else self.expert_form if op in (GATE_UP, DOWN) else self.form


def streamed_alone(weights: str) -> bool:
    """Whether one sequence waits for memory and words in this precision, not for its unpacking."""
    form = format_of_dense(weights)
    return form.bits == 16 or form.integers


def check_precision(shape: ModelShape, weights: str) -> None:
    """Raises Unsupported where the megakernel does not stream the model in a precision."""
    if shape.experts and weights not in ("bf16", MXFP4.name):
        raise Unsupported(f"weights {weights}: the megakernel streams the experts of a mixture in bf16 or mxfp4")
    if weights == MXFP4.name and not shape.experts:
        raise Unsupported("weights mxfp4: only experts are held so, and the model has none")
    columns = 16 * MXFP4.tiles
    if weights == MXFP4.name and (shape.hidden % columns or shape.expert_size % columns):
        sizes = f"hidden_size {shape.hidden}, intermediate size of an expert {shape.expert_size}"
        raise Unsupported(f"{sizes}: the megakernel needs multiples of {columns} in mxfp4")


def fit_layout(shape: ModelShape, layout: Layout) -> Layout:
    """The layout within its limits: at most one SM for each 8 gate and up rows, and at most as many column parts as SMs
    or column tiles. Pairs and copies are dropped where the layout cannot have them, and slices where what joins the
    residual is normed: that takes the squares of all columns.

    An SM without gate and up rows would read every partial into its copy of the residual while no SM waits for it. A
    partial could then be overwritten before that SM has read it.
    """
    sms = max(1, min(layout.sms, shape.intermediate // 8))
    groups = expert_groups(shape, layout.batch)
    check_precision(shape, layout.weights)
    attended, gated = shape.heads * shape.head_dim // 16, shape.intermediate // 16
    fit = replace(
        layout,
        sms=sms,
        sliced=(layout.sliced or groups > 1) and not shape.norm_after,
        expert_groups=groups,
        out_parts=_whole_groups(attended, min(layout.out_parts, sms, attended), layout.form_of(OUT)),
        down_parts=_whole_groups(gated, min(layout.down_parts, sms, gated), layout.form_of(DOWN)),
    )
    fit = replace(fit, pairs=fit.pairs and can_pair(shape, fit))
    return fit if can_copy(shape, fit) else replace(fit, copies=1)


def _whole_groups(columns: int, parts: int, form: Format) -> int:
    """At most so many `parts` of the column tiles; none begins within what stays together."""
    multiple = form.together
    return max(
        count for count in range(1, parts + 1) if multiple == 1 or count == 1 or columns % (count * multiple) == 0
    )


def default_layout(
    shape: ModelShape,
    batch: int = 1,
    capacity: int = 0,
    weights: str = "bf16",
    sms: int = 132,
    tensor_parallel_size: int = 1,
) -> Layout:
    """The layout for a context of up to `capacity` tokens on each of `tensor_parallel_size` GPUs of `sms` SMs.

    `shape` is one rank's shard of the model. All ranks together have about as many column parts as one GPU would.

    - One sequence, short context: OUT attends by itself, if one SM can read so many keys in time. Every SM with columns
      of a head then repeats the work, which takes less time than publishing one SM's result. Neighbours share the keys.
    - One sequence, longer context: the keys are split as long as there are SMs without an attention instruction. There
      are then so many splits that an SM merges only part of the heads.
    - One sequence, very long context: an instruction has all query heads of a key-value head, so that keys are read
      once. Neighbours share the splits if there are many.
    - Several sequences: the residual is sliced, so that partials cost little. In a short context an attention
      instruction has as few heads as still give each SM one instruction.
    - One sequence, a large hidden size: the residual is sliced, and keys are split in short contexts too.

    If hidden is a multiple of EVEN_HIDDEN, EVEN_SMS SMs have as few row tiles each as a few more SMs would. One
    sequence in bf16 or integers, which waits for memory and words, then takes less time on EVEN_SMS. In small models
    SMs mostly wait for words: their words get copies.
    """
    if batch == 1 and streamed_alone(weights) and shape.hidden % EVEN_HIDDEN == 0:
        sms = min(sms, EVEN_SMS)
    if batch > shape.batch_most:
        raise Unsupported(f"batch {batch}: the megakernel norms what joins the residual for one sequence alone")
    long, wide = capacity > SHORT_CONTEXT, batch == 1 and shape.hidden >= SLICED_HIDDEN and not shape.norm_after
    layout = Layout(
        sms,
        batch,
        out_parts=max(1, LONG_OUT_PARTS // tensor_parallel_size),
        weights=weights,
        tensor_parallel_size=tensor_parallel_size,
    )
    layout = replace(layout, down_parts=_down_parts(shape, layout))
    if batch == 1:
        copies = COPIES_DEFAULT if shape.hidden <= SMALL_HIDDEN else 1
        attending = replace(
            layout, splits=0, out_parts=_attending_parts(shape, tensor_parallel_size), pairs=True, copies=copies
        )
        attending = fit_layout(shape, replace(attending, chunk_blocks=fitting_chunk(weights, shape.hidden // 16)))
        few = shape.kv_heads * shape.head_dim <= MAX_ATTENDED_COLUMNS * max(1, ATTENDING_PARTS // tensor_parallel_size)
        if not long and not wide and few and can_attend(shape, attending):
            return attending
    heads = HEADS_DEFAULT if long or wide else max(1, min(HEADS_DEFAULT, -(-batch * shape.heads // sms)))
    once = len(attention_work(shape, replace(layout, heads=heads, splits=1)))
    splits = max(1, min(MAX_SPLITS if long or not wide else SLICED_SPLITS, sms // once))
    layout = replace(layout, heads=heads, splits=splits, sliced=batch > 1 or wide)
    return _reading_once(shape, layout) if batch == 1 and capacity > WHOLE_CONTEXT else layout


def serving_layout(
    shape: ModelShape, batch: int, capacity: int, weights: str, sms: int, tensor_parallel_size: int = 1
) -> Layout:
    """The layout of a server's instance: the default one, but batches of two sequences and more have the column parts
    of the largest, so that instances of a dense model share their streams of weights.
    """
    layout = default_layout(shape, batch, capacity, weights, sms, tensor_parallel_size)
    if batch == 1 or shape.experts:
        return layout
    largest = default_layout(shape, shape.batch_most, capacity, weights, sms, tensor_parallel_size)
    return replace(layout, out_parts=largest.out_parts, down_parts=largest.down_parts)


def _reading_once(shape: ModelShape, layout: Layout) -> Layout:
    """The layout with all query heads of a key-value head in an attention instruction: its keys are read once."""
    unsplit = replace(layout, heads=max(layout.heads, min(MAX_HEADS, shape.heads // shape.kv_heads)), splits=1)
    splits = max(1, layout.sms // len(attention_work(shape, unsplit)))
    if splits < SHARED_FROM and shape.heads * shape.head_dim > LONG_OUT_PARTS * NARROW_COLUMNS:
        return replace(unsplit, splits=min(MAX_SPLITS, splits))
    shared = fit_layout(shape, replace(unsplit, splits=min(SHARED_SPLITS, splits), pairs=True))
    return shared if shared.pairs else layout


def _attending_parts(shape: ModelShape, tensor_parallel_size: int) -> int:
    """The number of column parts of an OUT that attends: twice the default if partials are short and an SM would
    otherwise have two key-value heads of 128 dimensions, in two passes over their keys.
    """
    two = shape.head_dim == 128 and shape.kv_heads * tensor_parallel_size > ATTENDING_PARTS
    return max(
        1, (2 * ATTENDING_PARTS if two and shape.hidden <= ONE_PASS_HIDDEN else ATTENDING_PARTS) // tensor_parallel_size
    )


def _down_parts(shape: ModelShape, layout: Layout) -> int:
    """The number of column parts of `down`.

    More parts mean fewer chunks of weights for the busiest SM and fewer gated values for it to read, which must fit
    beside the ring; but every part adds a partial to read. In the cost below, reading a whole partial counts as one
    chunk, reading it in slices as half a chunk, and 4 KB of gated values as one chunk. In a small model a partial costs
    less than the gated values.
    """
    batch, sms = layout.batch, layout.sms
    if batch == 1 and shape.hidden <= SMALL_HIDDEN:
        return max(1, SMALL_DOWN_PARTS // layout.tensor_parallel_size)
    tiles, kilobytes = shape.hidden // 16, 2 * batch * shape.intermediate / 1024

    def cost(parts: int) -> tuple[bool, float]:
        chunks = -(-tiles * parts // sms) * (shape.intermediate / 16 / parts / 32)
        partials = layout.tensor_parallel_size * (parts if batch == 1 else parts / 2)
        return kilobytes / parts > MAX_GATED_KILOBYTES, chunks + partials + kilobytes / 4 / parts

    return min((1, 2, 4, 8, 16), key=cost)


def heads_of_columns(shape: ModelShape, k_tile: int, k_tiles: int) -> tuple[int, int]:
    """(first query head, query heads) that have columns of OUT among these column tiles."""
    first, last = k_tile * 16 // shape.head_dim, ((k_tile + k_tiles) * 16 - 1) // shape.head_dim
    return first, last - first + 1


def groups_of(shape: ModelShape, head: int, heads: int) -> list[tuple[int, int, int]]:
    """(kv_head, first query head, query heads) of each key-value head of the query heads [head, head + heads)."""
    group = shape.heads // shape.kv_heads
    return [
        (kv, max(head, kv * group), min(head + heads, (kv + 1) * group) - max(head, kv * group))
        for kv in range(head // group, (head + heads - 1) // group + 1)
    ]


def can_attend(shape: ModelShape, layout: Layout) -> bool:
    """Whether OUT, divided as `layout` says, has few enough heads in its columns to attend by itself."""
    columns = shape.heads * shape.head_dim // 16
    cuts = [round(part * columns / layout.out_parts) for part in range(layout.out_parts + 1)]
    parts = [groups_of(shape, *heads_of_columns(shape, a, b - a)) for a, b in itertools.pairwise(cuts)]
    return all(len(part) <= MAX_GROUPS and all(n <= MAX_HEADS for *_, n in part) for part in parts)


def can_pair(shape: ModelShape, layout: Layout) -> bool:
    """Whether SMs can share OUT's keys, or its splits: each has a partner and row tiles, and few enough columns."""
    if layout.batch > 1 or layout.sms % 2 or layout.sms < 2 * layout.out_parts:
        return False
    tiles = shape.heads * shape.head_dim // 16
    part = -(-tiles // layout.out_parts) * 16
    aligned = tiles % layout.out_parts == 0 and part % shape.head_dim == 0  # else a head may lie in two parts
    if layout.splits and shape.head_dim > LANES_OF_HEADS * 4:
        return False
    if layout.splits and part + (0 if aligned else shape.head_dim - 16) > MAX_MERGED_COLUMNS:
        return False
    shared = partition_tiles(*products(shape, layout)[OUT], layout.sms, 0, together=2)
    return all(units and k_tiles * 16 <= MAX_SHARED_COLUMNS for _, units, _, k_tiles, _ in shared)


def can_copy(shape: ModelShape, layout: Layout) -> bool:
    """Whether each copy has a reader, for any rotation: an SM in each part of DOWN, and of OUT where OUT attends. Ranks
    write into each other's memory, once.
    """
    alone = layout.batch == layout.tensor_parallel_size == 1 and not shape.experts
    if layout.splits or not alone or layout.sms % layout.copies:
        return False
    for op, together in ((OUT, 2 if layout.pairs else 1), (DOWN, 1)):
        shared = partition_tiles(*products(shape, layout)[op], layout.sms, 0, together)
        read = {(part, sm % layout.copies) for sm, (_, units, _, _, part) in enumerate(shared) if units}
        if len(read) < products(shape, layout)[op][2] * layout.copies:
            return False
    return True


def partition_tiles(
    tiles: int, columns: int, parts: int, sms: int, rotation: int, together: int = 1
) -> list[tuple[int, int, int, int, int]]:
    """Divides a matrix of `tiles` x `columns` tiles among the SMs: (tile, units, k_tile, k_tiles, part) for each SM.

    Each column part gets an equal group of SMs, and each SM of a group a contiguous run of the part's row tiles.
    `rotation` shifts the shares around the SMs, so that not always the same SMs have one tile more. `together`
    neighbouring SMs, from a multiple of it on, have the same columns.
    """
    assigned: list[tuple[int, int, int, int, int]] = [(0, 0, 0, 0, 0)] * sms
    edges = [round(part * sms / parts / together) * together for part in range(parts + 1)]
    rotation -= rotation % together
    cuts = [round(part * columns / parts) for part in range(parts + 1)]
    for part in range(parts):
        group = edges[part + 1] - edges[part]
        for i in range(group):
            low, high = tiles * i // group, tiles * (i + 1) // group
            sm = (edges[part] + i + rotation) % sms
            assigned[sm] = (low, high - low, cuts[part], cuts[part + 1] - cuts[part], part)
    return assigned


def products(shape: ModelShape, layout: Layout) -> dict[int, tuple[int, int, int]]:
    """Row tiles, column tiles and parts of each product; HEAD's of all ranks, GATE_UP's and DOWN's of one group."""
    k = shape.hidden // 16
    router = {ROUTER: (-(-shape.experts // 16), k, 1)} if shape.experts else {}
    return {
        QKV: (shape.qkv_rows // 16, k, 1),
        OUT: (k, shape.heads * shape.head_dim // 16, layout.out_parts),
        GATE_UP: (shape.intermediate // 8, k, 1),
        DOWN: (k, shape.intermediate // 16, layout.down_parts),
        HEAD: (-(-shape.vocab // 16), k, 1),
    } | router


def max_active_experts(shape: ModelShape, batch: int) -> int:
    """The most different experts of a layer that `batch` sequences choose; of a dense MLP 0."""
    return min(batch * shape.top_k, shape.experts)


def expert_groups(shape: ModelShape, batch: int) -> int:
    """The groups of `shape.top_k` experts of a layer that `batch` sequences need at most; of a dense MLP 1."""
    return -(-max_active_experts(shape, batch) // shape.top_k) if shape.experts else 1


def deal_tiles(tiles: int, sms: int, rotation: int) -> list[tuple[int, int]]:
    """Deals row tiles to the SMs one by one: (first, tiles), `sms` apart, so that none has two more at work."""
    first = [(sm - rotation) % sms for sm in range(sms)]
    return [(tile, len(range(tile, tiles, sms))) for tile in first]


def head_tiles(shape: ModelShape, layout: Layout, rank: int) -> range:
    """The row tiles of HEAD that a rank multiplies: its shard of the vocabulary."""
    tiles = products(shape, layout)[HEAD][0]
    return range(tiles * rank // layout.tensor_parallel_size, tiles * (rank + 1) // layout.tensor_parallel_size)


def attention_work(shape: ModelShape, layout: Layout) -> list[dict[str, int]]:
    """The fields of every attention instruction of a layer, the first splits first."""
    group = shape.heads // shape.kv_heads
    pieces = -(-group // layout.heads)
    bounds = [round(group * i / pieces) for i in range(pieces + 1)]
    return [
        {"kv_head": kv, "head": kv * group + low, "heads": high - low, "split": split, "sequence": sequence}
        for split in range(layout.splits)
        for sequence in range(layout.batch)
        for kv in range(shape.kv_heads)
        for low, high in itertools.pairwise(bounds)
    ]
