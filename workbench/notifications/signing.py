"""Signatures of webhooks, by the Standard Webhooks specification 1.0 (github.com/standard-webhooks/standard-webhooks).

Its Python library was not taken: it brings httpx, attrs, python-dateutil and stubs for these ten lines.
"""

import base64
import hashlib
import hmac
import secrets

MARK = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    """A fresh secret: the specification's mark, and 256 random bits in base64."""
    return MARK + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def headers(secret: str, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers that sign `body`; `timestamp` is the second of this try since 1970, UTC."""
    key = base64.b64decode(secret.removeprefix(MARK))
    signed = b".".join([message_id.encode(), str(timestamp).encode(), body])
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}
