"""A model's files are read into the page cache while the engine imports what loads them. Imports without torch."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

from kernels.measure import host_memory

READERS, CHUNK = 4, 16 << 20
"""Files that are read at once, and bytes of one read."""
SHARE = 0.5
"""Of the free memory: a larger model would drive its own first bytes out again."""


def read_ahead(directory: Path) -> list[Thread]:
    """Starts to read the safetensors of a folder, unless they are larger than SHARE of the free memory. The threads end
    with the process.
    """
    files = sorted(directory.rglob("*.safetensors")) if directory.is_dir() else []
    if sum(file.stat().st_size for file in files) > SHARE * host_memory.free_bytes():
        return []
    shares = [files[number::READERS] for number in range(min(READERS, len(files)))]
    readers = [Thread(target=_read, args=(share,), name="reads ahead", daemon=True) for share in shares]
    for reader in readers:
        reader.start()
    return readers


def _read(files: Sequence[Path]) -> None:
    buffer = bytearray(CHUNK)
    for path in files:
        with suppress(OSError), path.open("rb", buffering=0) as file:  # the loader says what is wrong with it
            while file.readinto(buffer):
                pass
