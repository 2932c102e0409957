"""Failed logins, counted by account and address, by address, and by account."""

import hashlib
import math

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest

from workbench.web.middleware import client_address

ADDRESS_FACTOR = 5
"""Many people may share one network address, so an address gets this many times the attempts of one person."""
ACCOUNT_FACTOR = 10
"""An account that is tried from many addresses gets this many times the attempts from one."""
KNOWN_SECONDS = 60 * 60 * 24 * 30
"""How long an address counts as the account's own after a login. Strangers cannot lock the owner out there."""


def _key(*parts: str) -> str:
    return "login:" + hashlib.sha256("\n".join(parts).encode()).hexdigest()


class LoginThrottle:
    """Counts the failed logins of one request's account and address.

    An attempt counts before its password is checked, so that many at once are not all let in. Success takes it back.
    """

    def __init__(self, request: HttpRequest, email: str) -> None:
        address, account = client_address(request), email.strip().lower()
        self._here, self._address = _key("here", address, account), _key("address", address)
        self._account, self._known = _key("account", account), _key("known", address, account)
        self._logins = _key("logins", account)

    def wait(self) -> int:
        """Counts an attempt. Returns the minutes to wait when there were too many, else 0."""
        limits = {self._here: settings.LOGIN_ATTEMPTS, self._address: settings.LOGIN_ATTEMPTS * ADDRESS_FACTOR}
        if not cache.get(self._known):
            limits[self._account] = settings.LOGIN_ATTEMPTS * ACCOUNT_FACTOR
        over = [count(key, settings.LOGIN_WINDOW_SECONDS) > limit for key, limit in limits.items()]
        return math.ceil(settings.LOGIN_WINDOW_SECONDS / 60) if any(over) else 0

    def succeeded(self) -> None:
        """Takes the attempt back, forgets the earlier failures from here, and knows the address from now on."""
        count(self._address, settings.LOGIN_WINDOW_SECONDS, -1)
        if not cache.get(self._known):
            count(self._account, settings.LOGIN_WINDOW_SECONDS, -1)
        cache.delete(self._here)
        cache.set(self._known, 1, KNOWN_SECONDS)

    def logs_in_too_often(self) -> bool:
        """Counts a login of the account: each writes a session, and an entry of the audit log that stays."""
        return count(self._logins, settings.LOGIN_WINDOW_SECONDS) > settings.LOGIN_ATTEMPTS * ACCOUNT_FACTOR


def count(key: str, seconds: int, change: int = 1) -> int:
    """Changes a counter, which ends `seconds` after its first change, and returns it."""
    cache.add(key, 0, seconds)
    try:
        return cache.incr(key, change)
    except ValueError:  # it ended between the two calls
        return 1
