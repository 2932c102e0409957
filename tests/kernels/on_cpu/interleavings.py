"""A model checker for warps that meet at mbarriers: every order in which a cluster's steps can happen is tried."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.kernels.on_cpu.noted import Note

INIT, ARRIVE, EXPECT, WAIT, LOAD, COMMIT, PRODUCT, SCALES, READ, TAKE, FREE, FENCE, SYNC, WEIGHTED, STORE, LOOK = range(
    16
)

SYNC_BARRIER = -1
"""The barrier of all warps (`cluster_sync`)."""

BLOCK = 1 << 20
"""Noted places count from here in the second block."""

_UNIT, _BITS = 512, 4096
"""Bytes of shared memory that one bit of a mask stands for; bits of a block in a mask."""

_TMEM, _COLUMNS, _QUARTERS = 1024, 512, 4
"""The first bit of a block's TMEM in a mask; a bit is one column of 32 lanes."""


@dataclass(frozen=True)
class Access:
    """A step on memory: masks, and who ends it: ("warp", warp, block), ("load", number), or ("tensor", place)."""

    reads: int
    writes: int
    ended_by: tuple[str, int, int]


@dataclass
class Program:
    """The noted steps, ready to be tried: of each warp its blocks of steps, the barriers, and what must end before."""

    blocks: list[list[list[tuple[int, ...]]]]
    barriers: list[int]
    counts: list[int]
    loads: list[tuple[int, int]] = field(default_factory=list)
    tensor: list[list[int]] = field(default_factory=list)
    """What the tensor cores do, in order: a commit arrives at barriers, all else at none."""
    before: dict[tuple[int, int, int], list[tuple[str, int, int]]] = field(default_factory=dict)


def shared_mask(first: int, size: int) -> int:
    block, begin = divmod(first, BLOCK)
    low, high = begin // _UNIT, -(-(begin + size) // _UNIT)
    return ((1 << high) - (1 << low)) << block * _BITS


def tmem_mask(block: int, first: int, columns: int, quarter: int | None = None) -> int:
    mask = 0
    for item in range(_QUARTERS) if quarter is None else (quarter,):
        mask |= ((1 << first + columns) - (1 << first)) << _TMEM + item * _COLUMNS
    return mask << block * _BITS


def memory(note: Note, warps: int) -> tuple[int, int]:
    """The masks that a noted step reads and writes. A block has so many warps."""
    warp, step, a, b, c, d, e, f = note
    block = warp // warps
    if step == LOAD:
        return 0, shared_mask(c, b)
    if step == PRODUCT:
        together = range(2) if f == 2 else (block,)
        reads = writes = 0
        for item in together:
            if e >= 0:
                reads |= tmem_mask(item, e % 65_536, 4) | tmem_mask(item, e // 65_536, d // 32)
            reads |= shared_mask(item * BLOCK + a % BLOCK // 1024 * 1024, 128 * 128)
            reads |= shared_mask(item * BLOCK + b // 1024 * 1024, d // len(together) * 128)
            writes |= tmem_mask(item, c, d)
        return reads, writes
    if step == SCALES:
        together = range(2) if c == 2 else (block,)
        return (
            sum(shared_mask(item * BLOCK + a % BLOCK, _UNIT) for item in together),
            sum(tmem_mask(item, b, 4) for item in together),
        )
    if step == WEIGHTED:  # 16 rows of each panel of values
        panels = [shared_mask(block * BLOCK + b + panel * e, 16 * 128) for panel in range(d // 64)]
        return tmem_mask(block, a, 8) | sum(panels), tmem_mask(block, c, d)
    if step == LOOK:
        return shared_mask(a, b), 0
    if step == READ:
        return tmem_mask(block, a, b, warp % warps % 4), 0
    if step == STORE:
        return 0, tmem_mask(block, a, b, warp % warps % 4)
    return 0, tmem_mask(block, 0, _COLUMNS) if step in (TAKE, FREE) else 0


def program(notes: list[Note]) -> Program:
    """What `noted` returned as a program. Steps that touch the same memory are ordered as they were noted."""
    warps = max(note[0] for note in notes) + 1
    inits = {note[2]: note[3] for note in notes if note[1] == INIT}
    of_a_block = warps // (max(inits) // BLOCK + 1)
    made = Program([[[]] for _ in range(warps)], [SYNC_BARRIER, *inits], [warps, *inits.values()])
    number = {address: i for i, address in enumerate(made.barriers)}
    done: list[Access] = []
    syncs = [0] * warps
    for last, note in zip([None, *notes], notes, strict=False):
        warp, step, a, b = note[:4]
        mine = made.blocks[warp]
        if last and step == LOAD and last[:3] == note[:3] and not memory(note, of_a_block)[1] & done[-1].writes:
            _joined(made, done, note, of_a_block)
            continue
        if step in (INIT, FENCE):
            continue
        if step in (WAIT, TAKE, FREE, LOOK) or (step == READ and not (mine[-1] and mine[-1][-1][0] == READ)):
            mine.append([])
        here = (warp, len(mine) - 1, len(mine[-1]))
        if step == SYNC:
            mine[-1].append((ARRIVE, 0, 0))
            mine.append([(WAIT, 0, syncs[warp] % 2)])
            syncs[warp] += 1
            continue
        reads, writes = memory(note, of_a_block)
        if step in (PRODUCT, SCALES, WEIGHTED, COMMIT):
            ended = ("tensor", len(made.tensor), 0)
            made.tensor.append([number[item] for item in _committed(a, b)] if step == COMMIT else [])
        elif step == LOAD:
            ended = ("load", len(made.loads), 0)
            made.loads.append((number[a], b))
        else:
            ended = ("warp", here[0], here[1])
        if reads or writes:
            made.before[here] = [
                access.ended_by
                for access in done
                if access.writes & (reads | writes) or access.reads & writes
                if not (
                    ended[0] == access.ended_by[0] == "tensor" or access.ended_by[:2] == ended[:2] == ("warp", warp)
                )
            ]
            done.append(Access(reads, writes, ended))
        which = number[a] if step in (ARRIVE, EXPECT, WAIT, COMMIT) else ended[1] if step == LOAD else 0
        mine[-1].append((step, which, b))
    return made


def _committed(barrier: int, blocks: int) -> list[int]:
    """The barriers at which a commit arrives: one, or the same one of several blocks."""
    return [barrier] if blocks < 2 else [barrier % BLOCK + block * BLOCK for block in range(blocks)]


def _joined(made: Program, done: list[Access], note: Note, warps: int) -> None:
    """Makes a copy a part of the one noted right before it."""
    writes, (barrier, size) = memory(note, warps)[1], made.loads[-1]
    steps = made.blocks[note[0]]
    here = (note[0], len(steps) - 1, len(steps[-1]) - 1)
    made.before[here] += [access.ended_by for access in done[:-1] if (access.reads | access.writes) & writes]
    made.loads[-1] = barrier, size + note[3]
    done[-1] = Access(0, done[-1].writes | writes, done[-1].ended_by)


Barrier = tuple[int, int, int]
"""Parity of the phase, arrivals that it still waits for, bytes that are announced and have not landed."""

State = tuple[tuple[int, ...], int, int, int, tuple[Barrier, ...]]
"""Blocks done by each warp, loads issued and landed (bits), tensor steps issued and done (as one number), barriers."""


class Broken(Exception):
    """An order in which the kernel is wrong."""


def check(made: Program, most: int = 400_000) -> int:
    """Tries every order, and returns how many states there are. Raises Broken for the first wrong one."""
    start: State = ((0,) * len(made.blocks), 0, 0, 0, tuple((0, count, 0) for count in made.counts))
    seen, waiting = {start}, [start]
    alike = [(first, end) for first, end in _alike(made) if end - first > 1]
    while waiting:
        state = waiting.pop()
        result = False
        for step in _steps(made, state):
            at = list(step[0])
            for first, end in alike:
                at[first:end] = sorted(at[first:end])
            result, after = True, (tuple(at), *step[1:])
            if after not in seen:
                seen.add(after)
                waiting.append(after)
        if not result and not _ended(made, state):
            raise Broken(f"all wait for each other, at blocks {state[0]}")
        if len(seen) > most:
            raise RuntimeError(f"more than {most} states")
    return len(seen)


def _alike(made: Program) -> Iterator[tuple[int, int]]:
    """The first and the last warp (exclusive) of those that follow each other and take the same steps, each on its own
    lanes of TMEM: the epilogue's of a block. They can be exchanged, so of the states that differ by that only, one is
    tried.
    """
    first = 0
    for warp in range(1, len(made.blocks) + 1):
        if warp == len(made.blocks) or made.blocks[warp] != made.blocks[first]:
            yield first, warp
            first = warp


def _ended(made: Program, state: State) -> bool:
    at, issued, landed, tensor, _ = state
    if any(done < len(blocks) for done, blocks in zip(at, made.blocks, strict=True)):
        return False
    if issued != landed or tensor // 65_536 != tensor % 65_536:
        raise Broken("the block ends before its copies and products")
    return True


def _steps(made: Program, state: State) -> Iterator[State]:
    """The states that one step leads to."""
    at, issued, landed, tensor, barriers = state
    for warp, done in enumerate(at):
        if done < len(made.blocks[warp]):
            after = _block(made, state, warp, done)
            if after is not None:
                yield after
    for load, (barrier, size) in enumerate(made.loads):
        if issued >> load & 1 and not landed >> load & 1:
            changed = list(barriers)
            _settle(changed, made, barrier, 0, -size)
            yield at, issued, landed | 1 << load, tensor, tuple(changed)
    ready, head = divmod(tensor, 65_536)
    if head < ready:
        changed = list(barriers)
        for barrier in made.tensor[head]:
            _settle(changed, made, barrier, 1, 0)
        yield at, issued, landed, tensor + 1, tuple(changed)


def _block(made: Program, state: State, warp: int, done: int) -> State | None:
    """The state after a warp's next block; None while it waits."""
    at, issued, landed, tensor, barriers = state
    changed = list(barriers)
    for place, (step, value, extra) in enumerate(made.blocks[warp][done]):
        if step == WAIT and changed[value][0] == extra:
            return None
        for kind, first, second in made.before.get((warp, done, place), ()):
            if kind == "warp":
                ended = at[first] > second
            elif kind == "load":
                ended = bool(landed >> first & 1)
            else:
                ended = tensor % 65_536 > first
            if not ended:
                raise Broken(f"warp {warp}, block {done}: {kind} {first} still uses the memory of step {step}")
        if step in (ARRIVE, EXPECT):
            _settle(changed, made, value, 1, extra if step == EXPECT else 0)
        elif step == LOAD:
            issued |= 1 << value
        elif step in (PRODUCT, SCALES, WEIGHTED, COMMIT):
            tensor += 65_536
    return (*at[:warp], done + 1, *at[warp + 1 :]), issued, landed, tensor, tuple(changed)


def _settle(barriers: list[Barrier], made: Program, which: int, arrivals: int, size: int) -> None:
    parity, missing, pending = barriers[which]
    missing, pending = missing - arrivals, pending + size
    if missing < 0:
        raise Broken(f"barrier {which} counts more arrivals than a phase has")
    barriers[which] = (parity ^ 1, made.counts[which], 0) if missing == pending == 0 else (parity, missing, pending)


def unfenced(notes: list[Note]) -> list[str]:
    """Where a warp issues products or touches TMEM after a wait without a fence, or arrives after it without one."""
    result, stale, reading = [], set[int](), set[int]()
    for warp, step, a, *_ in notes:
        if step in (WAIT, SYNC):
            stale.add(warp)
        if step == FENCE:
            (stale if a else reading).discard(warp)
        if step in (PRODUCT, SCALES, WEIGHTED, READ, STORE) and warp in stale:
            result.append(f"warp {warp}: step {step} after a wait without a fence")
        if step in (READ, STORE):
            reading.add(warp)
        if step in (ARRIVE, SYNC) and warp in reading:
            result.append(f"warp {warp} arrives after reading or storing in TMEM without a fence")
    return result
