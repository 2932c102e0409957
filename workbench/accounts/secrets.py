"""Secrets that are shown once and kept as keyed hashes, and the cipher of those that must be read again."""

import base64
import secrets
from functools import cache

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.utils.crypto import salted_hmac

TOKEN_MARK = "kwb_"
"""How each API token begins, for scanners of leaked secrets."""
PREFIX_LENGTH = 12


def keyed_digest(secret: str) -> str:
    """HMAC-SHA256 of `secret` under a key derived from SECRET_KEY, 64 hex digits."""
    return salted_hmac("workbench.accounts.secrets", secret, algorithm="sha256").hexdigest()


def new_secret() -> str:
    """A secret that may stand in a link, 256 random bits."""
    return secrets.token_urlsafe(32)


def cipher(purpose: str) -> Fernet:
    """Encrypts and decrypts under a key derived from SECRET_KEY, another one for each purpose."""
    return _cipher(settings.SECRET_KEY, purpose)


@cache
def _cipher(secret_key: str, purpose: str) -> Fernet:
    derived = HKDF(SHA256(), 32, salt=None, info=purpose.encode()).derive(secret_key.encode())
    return Fernet(base64.urlsafe_b64encode(derived))
