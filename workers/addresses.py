"""Which addresses of customers may be connected to. Nothing inside the operator's network is, unless the operator says
so by the host's name."""

import ipaddress
import socket
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

GLOBAL_V6 = ipaddress.ip_network("2000::/3")
INSIDE = [
    ipaddress.ip_network(each)
    for each in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",  # Azure's platform, from inside its machines
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),  # tunnels, which carry IPv4, and documentation
    )
]
"""The special-purpose ranges of IANA's registries (RFC 6890), of which cloud metadata services have addresses as well.
Of IPv6 everything outside 2000::/3 is refused too: loopback, link-local, unique local, mapped and translated IPv4."""


class AddressRefused(Exception):
    """The address may not be used; the message is a sentence."""


@dataclass(frozen=True)
class Destination:
    """Where an address points: scheme, host as it is asked of the resolver, port, and path with query."""

    scheme: str
    host: str
    port: int
    path: str
    allowed: bool
    """The operator lets this host be inside the network, and be spoken to without TLS."""


def is_inside(address: IpAddress) -> bool:
    """Whether an address is not one of the public internet."""
    if address.version == 6 and address not in GLOBAL_V6:
        return True
    return any(address in network for network in INSIDE if network.version == address.version)


def parse(url: str, inside: Collection[str], example: str) -> Destination:
    """What an address says. Raises AddressRefused for what could not be connected to in any case.

    `inside`: hosts, or host:port, that may be inside the network. `example`: an address for the sentence.
    """
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode().lower()
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
    except ValueError:
        raise AddressRefused(f"This is not an address such as {example}.") from None
    if not host or parts.scheme not in ("http", "https") or not url.isprintable() or " " in url:
        raise AddressRefused(f"This is not an address such as {example}.")
    if parts.username is not None or parts.fragment:
        raise AddressRefused("The address may hold neither a login nor a fragment (#).")
    allowed = bool({host, f"{host}:{port}"} & set(inside))
    if parts.scheme == "http" and not allowed:
        raise AddressRefused("The address must begin with https://.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    target = Destination(parts.scheme, host, port, path, allowed)
    numeric = _look_up(target, socket.AI_NUMERICHOST)
    _check(target, numeric)
    return target


def resolve(target: Destination) -> str:
    """An address of the host, to connect to without asking again. Raises AddressRefused when one of them is inside."""
    found = _look_up(target)
    if not found:
        raise OSError(f"{target.host} has no address.")
    _check(target, found)
    return str(found[0])


def _look_up(target: Destination, flags: int = 0) -> list[IpAddress]:
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM, flags=flags)
    except (socket.gaierror, UnicodeError):
        return []
    return [ipaddress.ip_address(each[4][0]) for each in found]


def _check(target: Destination, found: list[IpAddress]) -> None:
    if not target.allowed and any(is_inside(each) for each in found):
        raise AddressRefused(f"{target.host} is an address inside a network, not one of the public internet.")
