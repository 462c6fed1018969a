"""Where a request that a model asked for may go."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence

from runwell.errors import InvalidInput, ToolError

__all__ = ["Destinations", "is_public"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NUMERIC = re.compile(r"(0x[0-9a-f]*|[0-9]+)", re.I)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_REFUSED = (
    ipaddress.ip_network("168.63.129.16/32"),  # a public address by which a cloud's machines reach their host
    ipaddress.ip_network("64:ff9b:1::/48"),  # translation inside one network
    ipaddress.ip_network("fec0::/10"),  # what site-local addresses were
)


def is_public(address: Address) -> bool:
    """Whether it is an address of the open internet, judged by the IPv4 address inside it if it holds one.

    Not public are private, loopback, link-local, shared, multicast, reserved and unspecified addresses.
    """
    if isinstance(address, ipaddress.IPv6Address):
        inside: list[Address] = []
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address.sixtofour is not None:
            inside.append(address.sixtofour)
        if address.teredo is not None:
            inside.extend(address.teredo)
        if address in _NAT64 or int(address) < 2**32:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)) and int(address) >= 2**32
        if not all(is_public(each) for each in inside):
            return False
    return (
        address.is_global
        and not (address.is_multicast or address.is_reserved or address.is_unspecified or address.is_link_local)
        and not any(address.version == each.version and address in each for each in _REFUSED)
    )


class Destinations:
    """Decides where requests may go, by the addresses that a host's name stands for.

    Addresses that are not public are refused, but for those in `allow_private`: hosts (`"intranet.example"`,
    `"localhost:8000"`) and networks (`"10.2.0.0/16"`). With `only_hosts` no other hosts are reached: each is one host,
    with or without a port, or `"*.example.com"` for those below it. Neither gives leave for what the other refuses.
    """

    def __init__(self, *, allow_private: Sequence[str] = (), only_hosts: Sequence[str] | None = None) -> None:
        for field, given in (("allow_private", allow_private), ("only_hosts", only_hosts)):
            if isinstance(given, str):
                raise InvalidInput(f"{field}={given!r} is one text.", hint=f"{field}=[{given!r}]")
        self.only = None if only_hosts is None else [_host(each, "only_hosts") for each in only_hosts]
        self.networks = [ipaddress.ip_network(each, strict=False) for each in allow_private if "/" in each]
        self.private = [_host(each, "allow_private") for each in allow_private if "/" not in each]

    def addresses(self, host: str, port: int) -> list[str]:
        """The addresses to connect to. Raises ToolError, in words for the model, unless all of them may be reached.

        Whoever connects uses one of these, and does not look the name up again: a second answer may be another.
        """
        host = host.lower().rstrip(".").strip("[]")
        if self.only is not None and not any(_names(each, host, port) for each in self.only):
            raise ToolError(f"Refused: {host!r} is not among the hosts that may be reached.")
        found = self._looked_up(host, port)
        trusted = any(_names(each, host, port) for each in self.private)
        for address in found:
            allowed = trusted or any(each.version == address.version and address in each for each in self.networks)
            if not allowed and not is_public(address):
                raise ToolError(f"Refused: {host!r} is at {address}, which is not an address of the open internet.")
        return [str(each) for each in found]

    def _looked_up(self, host: str, port: int) -> list[Address]:
        try:
            return [ipaddress.ip_address(host)]
        except ValueError:
            pass
        if _NUMERIC.fullmatch(host.rpartition(".")[2]):
            raise ToolError(f"Refused: {host!r} is an address in an unusual form.")
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ToolError(f"There is no host {host!r} ({error}).") from error
        return list(dict.fromkeys(ipaddress.ip_address(answer[4][0]) for answer in answers))


def _host(given: str, field: str) -> tuple[str, int | None]:
    host, colon, port = given.lower().rpartition(":")
    if not colon or (host.count(":") and not host.endswith("]")):  # no port, or an IPv6 address
        host, port = given.lower(), ""
    host = host.strip("[]").rstrip(".")
    if not host or "/" in host or "@" in host or (port and not port.isdigit()):
        raise InvalidInput(f"{field} has {given!r}.", hint='Name hosts, as in "example.com" or "localhost:8000".')
    return host, int(port) if port else None


def _names(entry: tuple[str, int | None], host: str, port: int) -> bool:
    name, only_port = entry
    if only_port is not None and only_port != port:
        return False
    return host.endswith(name[1:]) and len(host) > len(name) - 1 if name.startswith("*.") else host == name
