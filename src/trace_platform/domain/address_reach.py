"""How far from this machine an address is. Python's `is_global` is no wall: it is true for ways to
write an IPv4 address as IPv6, and for groups of receivers."""

from __future__ import annotations

from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

# What translates to IPv4, which stands in the last bits (RFC 6052), or behind the first 16 (6to4).
_TRANSLATED = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"), ip_network("::/96"))
_6TO4 = ip_network("2002::/16")


class Reach(IntEnum):
    # Also what a machine is told of itself: 169.254.169.254.
    THIS_MACHINE = 0
    PRIVATE_NETWORK = 1
    PUBLIC = 2


def reach_of(address: str) -> Reach:
    """Of an address in digits. Raise ValueError for anything else."""
    found = _meant(ip_address(address.partition("%")[0]))
    if found.is_loopback or found.is_unspecified or found.is_link_local:
        return Reach.THIS_MACHINE
    if not found.is_global or found.is_multicast:
        return Reach.PRIVATE_NETWORK
    return Reach.PUBLIC


def _meant(found: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that it leads to, where it is one of IPv6 that does."""
    if isinstance(found, IPv4Address) or found.is_loopback or found.is_unspecified:
        return found
    if found.ipv4_mapped is not None:
        return found.ipv4_mapped
    if found in _6TO4:
        return IPv4Address(int(found) >> 80 & 0xFFFFFFFF)
    if any(found in each for each in _TRANSLATED):
        return IPv4Address(int(found) & 0xFFFFFFFF)
    return found
