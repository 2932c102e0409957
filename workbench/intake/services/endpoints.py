"""A workload's endpoint: whether it may be named, and its key, which is kept encrypted and goes to workers alone."""

import json
from collections.abc import Iterator
from typing import Any

from cryptography.fernet import InvalidToken
from django.conf import settings

from kernels.load.connection import Address, BadAddress
from workbench.accounts.secrets import cipher
from workbench.intake.models import Workload
from workers.documents.endpoint import Endpoint
from workers.documents.model import ModelManifest
from workers.documents.worker_api import EndpointAccess
from workers.shared import addresses

KEYS = "workbench.intake.endpoint"
"""What the cipher of the keys is for."""
CARRIED = "workbench.intake.endpoint.carried"
CARRIED_SECONDS = 3600
"""So long a form may be corrected without typing the key again."""
EXAMPLE = "https://models.example.com/v1"
ANY_PUBLIC = "*"
LOST = "Its key cannot be read any more, as happens when SECRET_KEY changes; hand the workload in again with the key."


def reasons(endpoint: Endpoint, facts: ModelManifest) -> Iterator[dict[str, str]]:
    """Why the endpoint cannot be measured beside this model, each with its field. None of them shows the key."""
    if refused := refusal(endpoint):
        yield {"field": "endpoint.url", "reason": refused}
    key = endpoint.key.get_secret_value()
    if not (key.isascii() and key.isprintable() and " " not in key):
        yield {"field": "endpoint.key", "reason": "holds characters that no key has"}
    if facts.counted in ("images", "recordings"):
        yield {"field": "endpoint", "reason": f"{facts.name} reads no text, and endpoints are sent text alone"}
    elif facts.kind == "decoder" and endpoint.api == "embeddings":
        yield {"field": "endpoint.api", "reason": f"{facts.name} generates tokens; ask for completions or chat"}
    elif facts.kind != "decoder" and endpoint.api != "embeddings":
        yield {"field": "endpoint.api", "reason": f"{facts.name} generates no tokens; ask for embeddings"}


def refusal(endpoint: Endpoint) -> str:
    """Why the operator's settings do not allow the endpoint's address, in a sentence; "" where they do."""
    try:
        target = addresses.parse(endpoint.url, settings.ENDPOINT_PRIVATE_HOSTS, EXAMPLE)
        Address.parse(endpoint.url)
    except addresses.AddressRefused as refused:
        return str(refused)
    except BadAddress:
        return "Give the host, the port and the path alone, without a query."
    named = {target.host, f"{target.host}:{target.port}"}
    if target.allowed or named & set(settings.ENDPOINT_ALLOWED_HOSTS) or ANY_PUBLIC in settings.ENDPOINT_ALLOWED_HOSTS:
        return ""
    if not settings.ENDPOINT_ALLOWED_HOSTS and not settings.ENDPOINT_PRIVATE_HOSTS:
        return "The operator of this workbench allows no endpoints; ENDPOINT_ALLOWED_HOSTS names hosts that may be one."
    return f"The operator does not allow {target.host} as an endpoint; ENDPOINT_ALLOWED_HOSTS names hosts that are."


def sealed(endpoint: Endpoint | None, like: Workload | None = None) -> str:
    """The endpoint's key, encrypted; "" where it has none.

    Without a key that of the workload `like` is taken, where that has the same address: it goes nowhere else.
    """
    if endpoint is None:
        return ""
    if key := endpoint.key.get_secret_value():
        return cipher(KEYS).encrypt(key.encode()).decode()
    there = like.sla.endpoint if like and not like.reading[1] else None
    return like.endpoint_key if like and there and there.url == endpoint.url else ""


def carry(user: Any, key: str) -> str:
    """The key for a hidden input of a form that must be corrected: encrypted, of use for this person alone."""
    return cipher(CARRIED).encrypt(json.dumps([str(user.pk), key]).encode()).decode() if key else ""


def carried(user: Any, token: str) -> str:
    """The key that `carry` made the token of; "" for another person's, an old or a broken one."""
    try:
        who, key = json.loads(cipher(CARRIED).decrypt(token.encode(), ttl=CARRIED_SECONDS))
    except (InvalidToken, ValueError):
        return ""
    return str(key) if who == str(user.pk) else ""


def access(workload: Workload) -> EndpointAccess:
    """What the holder of a claim is told: the key, and which hosts may be private. The settings of now decide."""
    endpoint = workload.sla.endpoint
    if endpoint is None:
        return EndpointAccess(refused="The workload names no endpoint.")
    if refused := refusal(endpoint):
        return EndpointAccess(refused=refused)
    try:
        key = cipher(KEYS).decrypt(workload.endpoint_key.encode()).decode() if workload.endpoint_key else ""
    except InvalidToken:
        return EndpointAccess(refused=LOST)
    return EndpointAccess(key=key, inside=settings.ENDPOINT_PRIVATE_HOSTS)
