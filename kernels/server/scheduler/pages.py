"""The KV pages of a server: which are free, how many sequences read each, and which full pages hold a known prefix.

A page of the cache has a reference count. A full page is remembered by a digest of all tokens up to its end, so that a
prompt with the same beginning reads it again. A page that nobody reads stays remembered until it is taken for other
tokens; the one unread for longest is taken first.
"""

from array import array
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from hashlib import sha256

SCRATCH = 0
"""The page that padding writes to. It is never given to a sequence."""
ROOT = b"\0" * 32
"""The digest before the first page."""


def digest(parent: bytes, tokens: Sequence[int]) -> bytes:
    """The name of a full page: its own tokens after those of the page before it."""
    return sha256(parent + array("q", tokens).tobytes()).digest()


class Pages:
    """Pages 1 to count - 1 of `size` tokens each. Raises ValueError without a page beside the scratch page."""

    def __init__(self, count: int, size: int) -> None:
        if count < 2 or size < 1:
            raise ValueError(f"pages: {count} of {size} tokens leave none for a sequence")
        self.count, self.size = count, size
        self.readers = [0] * count
        self._empty = deque(range(1, count))
        self._unread: OrderedDict[int, None] = OrderedDict()
        self._page: dict[bytes, int] = {}
        self._digest: dict[int, bytes] = {}

    @property
    def free(self) -> int:
        """Pages that `take` can give, remembered ones included."""
        return len(self._empty) + len(self._unread)

    def needed(self, tokens: int) -> int:
        """The number of pages that hold `tokens` tokens."""
        return -(-tokens // self.size)

    def take(self) -> int:
        """A page for one sequence alone. Raises IndexError when none is free."""
        if self._empty:
            page = self._empty.popleft()
        elif self._unread:
            page, _ = self._unread.popitem(last=False)
            del self._page[self._digest.pop(page)]
        else:
            raise IndexError("no KV page is free")
        self.readers[page] = 1
        return page

    def share(self, page: int) -> None:
        """One more sequence reads a remembered page."""
        if not self.readers[page]:
            del self._unread[page]
        self.readers[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """A sequence leaves its pages, given in their order. Later ones are taken again before earlier ones."""
        for page in reversed(list(pages)):
            self.readers[page] -= 1
            if self.readers[page]:
                continue
            if page in self._digest:
                self._unread[page] = None
            else:
                self._empty.append(page)

    def remember(self, page: int, name: bytes) -> None:
        """Names a full page. The first page of a name keeps it."""
        if name not in self._page and page not in self._digest:
            self._page[name], self._digest[page] = page, name

    def prefix(self, names: Iterable[bytes]) -> list[int]:
        """The remembered pages of the names, up to the first that is unknown."""
        found = []
        for name in names:
            page = self._page.get(name)
            if page is None:
                break
            found.append(page)
        return found

    def unread(self, pages: Iterable[int]) -> int:
        """How many of the pages are free although remembered."""
        return sum(not self.readers[page] for page in pages)
