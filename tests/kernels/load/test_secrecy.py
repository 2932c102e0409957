"""Nothing that a server says tells a part of the key."""

import base64
import string
from urllib.parse import quote

import pytest

from kernels.load.secrecy import without_key

KEY = "sk-proj-Tq7+Vx/0Zb9_mN4wRk2LpE8s"
ENCODED = {
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64url": base64.urlsafe_b64encode(KEY.encode()).decode(),
    "base64 of the header": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "base64 of name and password": base64.b64encode(f":{KEY}".encode()).decode(),
    "hex": KEY.encode().hex(),
    "a URL": quote(KEY, safe=""),
}
OF_BEARER = "QmVhcmVyIH"
"""How base64 of the header begins, whatever the key."""
SAID = {
    "whole": KEY,
    "first 12": KEY[:12],
    "last 12": KEY[-12:],
    "first and last 4": f"{KEY[:4]}****{KEY[-4:]}",
    "the middle": KEY[9:17],
    "backwards": KEY[::-1],
    "in two halves": f"{KEY[:16]} {KEY[16:]}",
    **ENCODED,
}


@pytest.mark.parametrize("how", SAID)
def test_no_part_of_the_key_is_left(how: str) -> None:
    shown = without_key(f"Incorrect API key: {SAID[how]}. Look at the manual.", KEY)
    assert shown.startswith("Incorrect API key: ")
    assert shown.endswith("Look at the manual.")
    left = shown.removeprefix("Incorrect API key: ").removesuffix(" Look at the manual.").removeprefix(OF_BEARER)
    assert "…" in left
    assert len("".join(each for each in left if each in string.ascii_letters + string.digits)) <= 2, left


def test_a_short_key_is_hidden_as_a_whole() -> None:
    assert without_key("no such key: ab", "ab") == "no such key: …"


def test_without_a_key_a_sentence_stays() -> None:
    assert without_key("The server answered 429: Slow down", "") == "The server answered 429: Slow down"
