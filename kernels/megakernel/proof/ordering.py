"""Proves that a program ends, and that no value is overwritten before its last reader has it. Imports without torch.

It replays two tokens as a graph of instructions. An instruction comes after its predecessor on its SM, and after the
instructions that write the blocks it reads; nothing else orders SMs. Each instruction has a vector clock: for every SM,
the last instruction that must have come before. A block may be written again if the writer's clock contains every
reader. Two tokens are enough: every token runs the same list, so an order between neighbours holds between all.

The number of active splits depends on the length of the context. An instruction of an idle split reads and writes
nothing, and so orders nothing. The proof therefore treats instructions of splits after the first separately: they wait,
and are waited for, as in the longest context, but their readers learn only their own entry of the clock, never what
came before them. This proves the program with the fewest orders that any context has, and so for all contexts. Groups
of experts after the first are treated alike: how many are at work depends on what the router chooses. Which experts
they are changes only where weights are read, and no instruction writes weights.

Several GPUs are replayed as one: SMs are numbered over all ranks, and so are the blocks of their memories. What an
instruction writes to a buffer of EXCHANGED it writes into the memory of every rank.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kernels.megakernel.program import Program
from kernels.megakernel.program.exchange import EXCHANGED
from kernels.megakernel.program.instructions import ATTENTION, END, HEAD
from kernels.megakernel.proof.effects import Access, Effects, buffer_sizes, effects
from kernels.megakernel.proof.structure import ProgramProblem, instruction_name, instruction_rows

TOKENS = 2
MAX_PROBLEMS = 20


class Buffer:
    """A buffer's blocks: the epoch, its writer, and the last reader for each of the clock's `columns`."""

    def __init__(self, blocks: int, columns: set[int]) -> None:
        self.epoch = np.full(blocks, -1, dtype=np.int64)
        self.writer = np.full(blocks, -1, dtype=np.int32)
        self.columns = np.array(sorted(columns), dtype=np.int64)
        self.place = {column: place for place, column in enumerate(self.columns.tolist())}
        self.readers = np.full((blocks, max(1, len(columns))), -1, dtype=np.int16)


@dataclass(frozen=True)
class Node:
    """One instruction of a token on SM `sm`. Its readers learn `column` = `value`; its whole clock if it
    `always_runs`, that is, in contexts of every length and whatever the router chooses.
    """

    sm: int
    index: int
    token: int
    words: dict[str, int]
    effects: Effects
    column: int
    value: int
    always_runs: bool


class Ordering:
    """Replays well-formed programs, of all ranks (`structure` found nothing), and collects their ordering problems."""

    def __init__(self, *programs: Program) -> None:
        self.shape, self.layout = programs[0].shape, programs[0].layout
        self.tables = [table for program in programs for table in program.instructions]
        self.sms, self.layers = self.layout.all_sms, self.shape.layers
        self.sizes = buffer_sizes(self.shape, self.layout)
        self.problems: list[ProgramProblem] = []
        self._weak: dict[tuple[int, ...], int] = {}
        lists = [self._list(sm) for sm in range(self.sms)]
        self.nodes = [node for listed in lists for node in listed]
        self.starts = np.cumsum([0, *(len(listed) for listed in lists)])
        columns = self.sms + len(self._weak)
        always_run = [node.always_runs for node in self.nodes]
        self.rows = np.cumsum(always_run) - 1
        self.clocks = np.full((sum(always_run), columns), -1, dtype=np.int16)
        self.latest = np.full((self.sms, columns), -1, dtype=np.int16)
        readers: dict[str, set[int]] = {name: set() for name in self.sizes}
        for node in self.nodes:
            for access in node.effects.reads:
                readers[access.buffer].add(node.column)
        self.buffers = {
            name: Buffer(size * self.layout.tensor_parallel_size, readers[name]) for name, size in self.sizes.items()
        }
        self._learned_clocks: dict[tuple[Access, int], np.ndarray] = {}

    def _list(self, sm: int) -> list[Node]:
        """The SM's instructions of all tokens."""
        table, rank = instruction_rows(self.tables[sm]), sm // self.layout.sms
        done = [self._over_all_ranks(effects(self.shape, self.layout, sm, words), rank) for words in table]
        listed = []
        for token in range(TOKENS):
            for index, (words, effect) in enumerate(zip(table, done, strict=True)):
                column, value = sm, token * len(table) + index
                if not effect.always:
                    own_sm = -1 if words["op"] == ATTENTION else sm
                    fields = (words[name] for name in ("op", "sequence", "head", "split", "group"))
                    # nobody waits for an instruction without reads as a reader: one column does for all such
                    receiver = (rank, own_sm, *fields) if effect.reads else ()
                    column = self.sms + self._weak.setdefault(receiver, len(self._weak))
                    value = token * self.layers + words["layer"]
                listed.append(Node(sm, index, token, words, effect, column, value, effect.always))
        return listed

    def _over_all_ranks(self, declared: Effects, rank: int) -> Effects:
        """The effects with the blocks and key-value heads of a rank numbered over all ranks."""
        if self.layout.tensor_parallel_size == 1:
            return declared

        def at(a: Access, owner: int) -> Access:  # `replace` takes three times as long
            first = a.first + owner * self.sizes[a.buffer]
            return Access(a.buffer, a.layer, first, a.count, a.repeat, a.stride, a.always)

        def slots(of: tuple[tuple[int, int, int], ...]) -> tuple[tuple[int, int, int], ...]:
            return tuple((layer, rank * self.shape.kv_heads + kv, sequence) for layer, kv, sequence in of)

        ranks = range(self.layout.tensor_parallel_size)
        writes = [at(write, r) for write in declared.writes for r in (ranks if write.buffer in EXCHANGED else (rank,))]
        reads = tuple(at(read, rank) for read in declared.reads)
        return replace(
            declared, reads=reads, writes=tuple(writes), appends=slots(declared.appends), meets=slots(declared.meets)
        )

    def epoch(self, node: Node, access: Access) -> int:
        """Epochs of all layers and tokens in one order, as the kernel's flags before they wrap."""
        return node.token * (self.layers + 1) + access.layer

    def find_problems(self) -> list[ProgramProblem]:
        """All problems of order, at most about MAX_PROBLEMS."""
        at = self.starts[:-1].copy()
        moved = True
        while moved and len(self.problems) < MAX_PROBLEMS:
            moved = False
            for sm in range(self.sms):
                while at[sm] < self.starts[sm + 1] and self._ready(self.nodes[at[sm]]):
                    self._execute(int(at[sm]))
                    at[sm] += 1
                    moved = True
        if len(self.problems) < MAX_PROBLEMS:
            stuck = [self.nodes[at[sm]] for sm in range(self.sms) if at[sm] < self.starts[sm + 1]]
            self.problems += [self._stuck(node) for node in stuck[:3]]
            if not stuck:
                self.problems += [*self._unread(), *self._caches()]
        return self.problems

    def _ready(self, node: Node) -> bool:
        return all(self._arrived(node, access) for access in node.effects.reads)

    def _arrived(self, node: Node, access: Access) -> bool:
        """Whether all blocks hold the epoch; if so, keeps what their writers pass on for all readers."""
        key = access, node.token
        if key in self._learned_clocks:
            return True
        buffer, blocks = self.buffers[access.buffer], access.blocks
        if (buffer.epoch[blocks] != self.epoch(node, access)).any():
            return False
        learned = np.full(self.clocks.shape[1], -1, dtype=np.int16)
        for writer in np.unique(buffer.writer[blocks]):
            source = self.nodes[writer]
            if source.always_runs:
                np.maximum(learned, self.clocks[self.rows[writer]], out=learned)
            learned[source.column] = max(learned[source.column], source.value)
        self._learned_clocks[key] = learned
        return True

    def _execute(self, number: int) -> None:
        node = self.nodes[number]
        clock = (
            self.clocks[self.rows[number]] if node.always_runs else np.empty_like(self.latest[0])
        )  # nobody learns it
        clock[:] = self.latest[node.sm]
        for access in node.effects.reads:
            np.maximum(clock, self._learned_clocks[access, node.token], out=clock)
        clock[node.column] = max(clock[node.column], node.value)
        for access in node.effects.reads:
            self._read(node, access)
        for access in node.effects.writes:
            self._write(number, access, clock)
        if node.always_runs:
            self.latest[node.sm] = clock
        else:
            self.latest[node.sm, node.column] = node.value

    def _read(self, node: Node, access: Access) -> None:
        buffer, blocks = self.buffers[access.buffer], access.blocks
        if (buffer.epoch[blocks] != self.epoch(node, access)).any():
            self._problem("overwrite", node, f"what it reads in {access.buffer} may be overwritten before it is read")
        buffer.readers[blocks, buffer.place[node.column]] = node.value

    def _write(self, number: int, access: Access, clock: np.ndarray) -> None:
        node, buffer, blocks = self.nodes[number], self.buffers[access.buffer], access.blocks
        epoch = self.epoch(node, access)
        if (buffer.epoch[blocks] >= epoch).any():
            self._problem("duplicate", node, f"it writes {access.buffer} where another has written this token's")
        readers = buffer.readers[blocks]
        late = readers > clock[buffer.columns] if len(buffer.columns) else readers >= 0
        if late.any():
            column = int(buffer.columns[np.argwhere(late)[0, 1]])
            who = self._name(column) if column < self.sms else "an instruction that may be idle"
            self._problem("overwrite", node, f"it writes {access.buffer} while {who} may still be reading it")
        if ((buffer.epoch[blocks] >= 0) & (readers.max(axis=1) < 0)).any():
            self._problem("unread", node, f"it writes {access.buffer} again before anyone has read it")
        buffer.epoch[blocks], buffer.writer[blocks], buffer.readers[blocks] = epoch, number, -1

    def _problem(self, kind: str, node: Node, sentence: str) -> None:
        self.problems.append(self._problem_at(node, kind, f"{instruction_name(node.words)}: {sentence}"))

    def _problem_at(self, node: Node, kind: str, sentence: str) -> ProgramProblem:
        rank, sm = divmod(node.sm, self.layout.sms)
        return ProgramProblem(kind, sm, node.index, sentence, rank if self.layout.tensor_parallel_size > 1 else -1)

    def _name(self, number: int) -> str:
        rank, sm = divmod(number, self.layout.sms)
        return f"SM {sm} of GPU {rank}" if self.layout.tensor_parallel_size > 1 else f"SM {sm}"

    def _stuck(self, node: Node) -> ProgramProblem:
        missing = next(access for access in node.effects.reads if not self._arrived(node, access))
        buffer = self.buffers[missing.buffer]
        epochs = buffer.epoch[missing.blocks]
        epoch = self.epoch(node, missing)
        block = int(missing.blocks[epochs != epoch][0])
        ever = "is never written" if (epochs[epochs != epoch] < epoch).any() else "is overwritten"
        waiting = f"{instruction_name(node.words)} of token {node.token} waits for ever"
        return self._problem_at(node, "deadlock", f"{waiting}: block {block} of {missing.buffer} {ever}")

    def _unread(self) -> Iterator[ProgramProblem]:
        for name, buffer in self.buffers.items():
            unread = (buffer.epoch >= 0) & (buffer.readers.max(axis=1) < 0)
            if unread.any():
                node = self.nodes[buffer.writer[unread][0]]
                yield self._problem_at(
                    node, "unread", f"no instruction reads what {instruction_name(node.words)} writes in {name}"
                )

    def _caches(self) -> Iterator[ProgramProblem]:
        """Caches are plain stores, ordered by fences: each END must come after the HEADs that write what it reads."""
        heads = [self._head_after(sm) for sm in range(self.sms)]
        writers: dict[tuple[int, int, int], set[int]] = {}
        met: list[set[tuple[int, int, int]]] = [set() for _ in range(self.sms)]
        for node in (node for node in self.nodes if node.token == 0):
            for slot in node.effects.appends:
                writers.setdefault(slot, set()).add(node.sm)
            if node.effects.appends and heads[node.sm] < node.index:
                yield self._unpublished(node, "no head follows on its SM to publish the key it may append")
            met[node.sm].update(node.effects.meets)
        for number, node in enumerate(self.nodes):
            if node.token == 0 and node.words["op"] == END:
                expected = {sm for slot in met[node.sm] for sm in writers.get(slot, ())}
                unseen = sorted(sm for sm in expected if self.clocks[self.rows[number], sm] < heads[sm])
                if unseen:
                    yield self._unpublished(
                        node, f"keys of {self._name(unseen[0])} may be read before they are published"
                    )

    def _unpublished(self, node: Node, sentence: str) -> ProgramProblem:
        return self._problem_at(node, "cache", f"{instruction_name(node.words)}: {sentence}")

    def _head_after(self, sm: int) -> int:
        """The index of the SM's HEAD, or -1."""
        ops = self.tables[sm][:, 0]
        return int(np.flatnonzero(ops == HEAD)[-1]) if (ops == HEAD).any() else -1
