"""Takes an API key out of what a server said: the key, pieces of it, backwards as well, and its usual encodings."""

import base64
from collections.abc import Iterator
from urllib.parse import quote

MIN_KEY_CHARACTERS, MIN_ENCODED_CHARACTERS = 4, 8
"""So many characters in a row, of the key forwards or backwards or of an encoding of it, are taken for the key."""


def without_key(text: str, key: str) -> str:
    """The text with `…` in the place of everything that tells a part of the key."""
    hidden = [False] * len(text)
    for piece in _pieces(key):
        at = text.find(piece)
        while at >= 0:
            hidden[at : at + len(piece)] = [True] * len(piece)
            at = text.find(piece, at + 1)
    with_before = zip(text, hidden, [False, *hidden[:-1]], strict=True)
    return "".join(character if not here else "" if before else "…" for character, here, before in with_before)


def _pieces(key: str) -> set[str]:
    forms = {key, key[::-1], quote(key, safe="")}
    raw = key.encode()
    encoded = {raw.hex(), raw.hex().upper()}
    for shift in range(3):  # of base64, where the key begins within three bytes
        inner = base64.b64encode(b"\0" * shift + raw).decode().rstrip("=")[(0, 2, 3)[shift] :]
        encoded |= {inner, inner.translate(str.maketrans("+/", "-_"))}
    return {
        piece
        for group, min_characters in ((forms, MIN_KEY_CHARACTERS), (encoded, MIN_ENCODED_CHARACTERS))
        for form in group
        for piece in _runs(form, min_characters)
    }


def _runs(form: str, length: int) -> Iterator[str]:
    """Every run of so many characters; the whole form where it is shorter."""
    if form:
        yield from (form[at : at + length] for at in range(max(1, len(form) - length + 1)))
