"""Decides which addresses that customers give may be connected to (against server-side request forgery).

An address inside the operator's network is refused, unless the operator has allowed its host by name.
"""

import ipaddress
import socket
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

GLOBAL_V6 = ipaddress.ip_network("2000::/3")
INSIDE = [
    ipaddress.ip_network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",  # Azure's platform, from inside its machines
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),  # tunnels, which carry IPv4, and documentation
    )
]
"""The special-purpose ranges of IANA's registries (RFC 6890); the metadata services of clouds have addresses in them.
IPv6 outside 2000::/3 is refused as well: loopback, link-local, unique local, and IPv4 that is mapped or translated."""


class AddressRefused(Exception):
    """The address must not be connected to; the message is a sentence that says why."""


@dataclass(frozen=True)
class Destination:
    """The parts of a URL that a connection needs. `host` is in IDNA form, `path` includes the query."""

    scheme: str
    host: str
    port: int
    path: str
    allowed: bool
    """Whether the operator allows this host to be inside the network and to be used without TLS."""


def is_inside(address: IpAddress) -> bool:
    """Whether an address does not belong to the public internet."""
    if address.version == 6 and address not in GLOBAL_V6:
        return True
    return any(address in network for network in INSIDE if network.version == address.version)


def parse(url: str, inside: Collection[str], example: str) -> Destination:
    """The parts of `url`; no resolver is asked. Raises AddressRefused if it is malformed or must not be connected to.

    `inside` are the hosts (`host` or `host:port`) that the operator allows inside the network. `example` is a good URL
    for the error's sentence.
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
    if not allowed and (host.rstrip(".") == "localhost" or host.rstrip(".").endswith(".localhost")):
        raise AddressRefused(f"{host} is an address inside a network, not one of the public internet.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    target = Destination(parts.scheme, host, port, path, allowed)
    numeric = _look_up(target, socket.AI_NUMERICHOST)
    _check(target, numeric)
    return target


def resolve(target: Destination) -> str:
    """The IP address to connect to. It was checked, so the caller must not resolve the name again.

    Raises AddressRefused if any address of the host is inside the network, and OSError if there is none.
    """
    addresses = _look_up(target)
    if not addresses:
        raise OSError(f"{target.host} has no address.")
    _check(target, addresses)
    return str(addresses[0])


def _look_up(target: Destination, flags: int = 0) -> list[IpAddress]:
    try:
        entries = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM, flags=flags)
    except (socket.gaierror, UnicodeError):
        return []
    return [ipaddress.ip_address(entry[4][0]) for entry in entries]


def _check(target: Destination, addresses: list[IpAddress]) -> None:
    if not target.allowed and any(is_inside(address) for address in addresses):
        raise AddressRefused(f"{target.host} is an address inside a network, not one of the public internet.")
