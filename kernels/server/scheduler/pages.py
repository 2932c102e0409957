"""The KV pages of a server: which are free, how many sequences read each, and which full pages hold a known prefix.

A page has a reference count, `ref_cnt`. A full page is cached by a hash of all tokens up to its end (prefix caching),
so that a prompt with the same beginning reads it again. A page that nobody reads stays cached until it is allocated for
other tokens: the least recently used one is evicted first.
"""

from array import array
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from hashlib import sha256

SCRATCH = 0
"""The page that padding writes to. It is never given to a sequence."""
ROOT = b"\0" * 32
"""The hash before the first page."""


def hash_block(parent: bytes, tokens: Sequence[int]) -> bytes:
    """The hash of a full page: of its own tokens after the hash of the page before it."""
    return sha256(parent + array("q", tokens).tobytes()).digest()


class Pages:
    """Pages 1 to count - 1 of `size` tokens each. Raises ValueError without a page beside the scratch page."""

    def __init__(self, count: int, size: int) -> None:
        if count < 2 or size < 1:
            raise ValueError(f"pages: {count} of {size} tokens leave none for a sequence")
        self.count, self.size = count, size
        self.ref_cnt = [0] * count
        self._empty = deque(range(1, count))
        self._evictable: OrderedDict[int, None] = OrderedDict()
        self._page_of_hash: dict[bytes, int] = {}
        self._hash_of_page: dict[int, bytes] = {}

    @property
    def num_free(self) -> int:
        """Pages that `allocate` can give, cached ones included."""
        return len(self._empty) + len(self._evictable)

    def needed(self, tokens: int) -> int:
        """The number of pages that hold `tokens` tokens."""
        return -(-tokens // self.size)

    def allocate(self) -> int:
        """A page for one sequence alone. Raises IndexError when none is free."""
        if self._empty:
            page = self._empty.popleft()
        elif self._evictable:
            page, _ = self._evictable.popitem(last=False)
            del self._page_of_hash[self._hash_of_page.pop(page)]
        else:
            raise IndexError("no KV page is free")
        self.ref_cnt[page] = 1
        return page

    def touch(self, page: int) -> None:
        """One more sequence reads a cached page."""
        if not self.ref_cnt[page]:
            del self._evictable[page]
        self.ref_cnt[page] += 1

    def free(self, pages: Iterable[int]) -> None:
        """A sequence leaves its pages, given in their order. Later ones are evicted before earlier ones."""
        for page in reversed(list(pages)):
            self.ref_cnt[page] -= 1
            if self.ref_cnt[page]:
                continue
            if page in self._hash_of_page:
                self._evictable[page] = None
            else:
                self._empty.append(page)

    def cache_full_block(self, page: int, block_hash: bytes) -> None:
        """Caches a full page. The first page of a hash keeps it."""
        if block_hash not in self._page_of_hash and page not in self._hash_of_page:
            self._page_of_hash[block_hash], self._hash_of_page[page] = page, block_hash

    def prefix(self, block_hashes: Iterable[bytes]) -> list[int]:
        """The cached pages of the hashes, up to the first that is unknown."""
        pages = []
        for block_hash in block_hashes:
            page = self._page_of_hash.get(block_hash)
            if page is None:
                break
            pages.append(page)
        return pages

    def evictable(self, pages: Iterable[int]) -> int:
        """How many of the pages are free although cached."""
        return sum(not self.ref_cnt[page] for page in pages)
