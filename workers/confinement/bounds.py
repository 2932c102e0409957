"""What a confined process may do, and what became of it."""

import json
from dataclasses import asdict, dataclass, field
from typing import Self


@dataclass(frozen=True)
class ResourceLimits:
    """What the kernel holds a process to.

    `memory_bytes` and `processes` (threads count as processes) hold for all processes together where a control group
    can be made. Elsewhere the memory is limited for each process, with `mapped_bytes` more, which files of that size
    take when they are mapped. None leaves the memory unlimited.
    """

    cpu_seconds: int = 3600
    file_bytes: int = 64 * 2**30
    open_files: int = 65_536
    processes: int = 4096
    memory_bytes: int | None = None
    mapped_bytes: int = 0


@dataclass(frozen=True)
class Bounds:
    """The files that the process sees, and whose it is.

    `readable` and `writable` name directories and files with all that is in them; those that do not exist are left
    out. `user` is the user id that a process of root becomes. `required`: without every protection nothing runs.
    `loopback`: in its own network it may also connect to itself, which takes a network namespace; elsewhere it has no
    network at all.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    user: int = 2_000_000_000
    required: bool = False
    loopback: bool = False


@dataclass
class Protection:
    """What holds a process, in a few words each, and in sentences what does not."""

    held: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read `to_json`'s text. Raises ValueError when it is cut off."""
        return cls(**json.loads(text))
