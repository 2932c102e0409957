"""Log probabilities as they are told with an answer: one entry for each token whose text is part of it."""

from typing import NamedTuple

from kernels.serve.requests import Logprobs


class LogprobEntry(NamedTuple):
    """A token of an answer with its log probabilities. `offset` counts the characters of the answer before it."""

    token: int
    offset: int
    logprobs: Logprobs


class Entries:
    """Holds entries back until their text is told, so that a stop text cuts them as it cuts the text."""

    def __init__(self) -> None:
        self._held: list[LogprobEntry] = []
        self._made = self._told = 0

    def add(self, token: int, logprobs: Logprobs, made: int) -> None:
        """A token that makes `made` more characters certain, which may still become part of a stop text."""
        self._held.append(LogprobEntry(token, self._made, logprobs))
        self._made += made

    def told(self, characters: int) -> list[LogprobEntry]:
        """The entries whose text begins within what is told of the answer, now that it is so much longer."""
        self._told += characters
        count = sum(each.offset < self._told for each in self._held)
        found, self._held = self._held[:count], self._held[count:]
        return found

    def rest(self) -> list[LogprobEntry]:
        """What was held back, at the end of an answer that no stop text cut."""
        found, self._held = self._held, []
        return found
