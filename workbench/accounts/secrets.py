"""Secrets that are shown once and kept as keyed hashes."""

import secrets

from django.utils.crypto import salted_hmac

TOKEN_MARK = "kwb_"
PREFIX_LENGTH = 12


def keyed_digest(secret: str) -> str:
    """HMAC-SHA256 of `secret` under a key derived from SECRET_KEY, 64 hex digits."""
    return salted_hmac("workbench.accounts.secrets", secret, algorithm="sha256").hexdigest()


def new_token() -> str:
    """A fresh API token: a mark that scanners of leaked secrets can find, and 256 random bits."""
    return TOKEN_MARK + secrets.token_urlsafe(32)


def new_link_secret() -> str:
    """The secret part of a one-time link, 256 random bits."""
    return secrets.token_urlsafe(32)
