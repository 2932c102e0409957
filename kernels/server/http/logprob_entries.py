"""Log probabilities that are sent with an answer: one entry for each token whose text the answer contains."""

from typing import NamedTuple

from kernels.server.scheduler.requests import Logprobs


class LogprobEntry(NamedTuple):
    """A token with its log probabilities; its text begins at the character `offset` of the answer."""

    token: int
    offset: int
    logprobs: Logprobs | None
    """None for the first token of a prompt, which nothing precedes."""


class Entries:
    """Keeps entries until the text of their tokens is sent, so that a stop text removes them together with the text."""

    def __init__(self) -> None:
        self._pending: list[LogprobEntry] = []
        self._generated = self._sent = 0

    def add(self, token: int, logprobs: Logprobs | None, made: int) -> None:
        """Adds a token that makes the text `made` characters longer. A stop text may still remove some of them."""
        self._pending.append(LogprobEntry(token, self._generated, logprobs))
        self._generated += made

    def take(self, characters: int) -> list[LogprobEntry]:
        """Returns the entries to send with the answer's next `characters`: those whose text begins before their end."""
        self._sent += characters
        count = sum(logprob_entry.offset < self._sent for logprob_entry in self._pending)
        entries, self._pending = self._pending[:count], self._pending[count:]
        return entries

    def rest(self) -> list[LogprobEntry]:
        """Returns the entries that are left at the end of an answer without a stop text."""
        entries, self._pending = self._pending, []
        return entries
