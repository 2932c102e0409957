"""Failed logins, counted per address and per pair of address and email."""

import hashlib
import math

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest
from ninja.throttling import SimpleRateThrottle

ADDRESS_FACTOR = 5
"""Many people may share one network address, so an address gets this many times the attempts of one person."""


def client_address(request: HttpRequest) -> str:
    """The caller's network address; behind a proxy the one that the proxy reports."""
    return SimpleRateThrottle.get_ident(SimpleRateThrottle("1/s"), request) or ""


def _key(*parts: str) -> str:
    return "login:" + hashlib.sha256("\n".join(parts).encode()).hexdigest()


class LoginThrottle:
    """Counts login attempts before the password is checked. A successful login clears the person's own count."""

    def __init__(self, request: HttpRequest, email: str) -> None:
        address = client_address(request)
        self._person = _key(address, email.strip().lower())
        self._limits = {self._person: settings.LOGIN_ATTEMPTS, _key(address): settings.LOGIN_ATTEMPTS * ADDRESS_FACTOR}

    def wait(self) -> int:
        """Counts an attempt. Returns the minutes to wait when there were too many, else 0."""
        over = [_count(key) > limit for key, limit in self._limits.items()]
        return math.ceil(settings.LOGIN_WINDOW_SECONDS / 60) if any(over) else 0

    def clear(self) -> None:
        """Forgets this person's attempts."""
        cache.delete(self._person)


def _count(key: str) -> int:
    cache.add(key, 0, settings.LOGIN_WINDOW_SECONDS)
    try:
        return cache.incr(key)
    except ValueError:  # it ended between the two calls
        return 1
