"""Secrets that a page shows once: kept in the session from the form's POST to the page that it leads to.

So a page that is loaded again repeats no POST, which would make a second secret.
"""

from cryptography.fernet import InvalidToken
from django.http import HttpRequest

from workbench.accounts.secrets import cipher

PURPOSE = "workbench.accounts.shown_once"
SECONDS = 600
"""After that it is not shown any more, as where the connection broke before the page came."""


def keep(request: HttpRequest, key: str, secret: str) -> None:
    """Keeps `secret`, encrypted, for the next page that shows `key`."""
    request.session[_key(key)] = cipher(PURPOSE).encrypt(secret.encode()).decode()


def take(request: HttpRequest, key: str) -> str:
    """The secret that is kept for `key`, which is forgotten; empty where there is none."""
    value = request.session.pop(_key(key), "")
    try:
        return cipher(PURPOSE).decrypt(value, ttl=SECONDS).decode() if value else ""
    except InvalidToken:
        return ""


def _key(key: str) -> str:
    return f"shown once: {key}"
