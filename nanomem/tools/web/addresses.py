"""Which internet addresses are public. Pure: knows no name, no socket and no URL.

`is_global` alone lets through IPv4 addresses wrapped in IPv6, site-local ones and multicast.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_UNICAST = IPv6Network("2000::/3")  # all that is assigned for use by anybody, RFC 4291
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052
_COMPATIBLE = IPv6Network("::/96")  # RFC 4291, 2.5.5.1
_ISATAP = 0x5EFE  # RFC 5214, 6.1: the interface's id is 0000:5efe or 0200:5efe, then the IPv4 address
_NOT_GLOBAL = (
    IPv4Network("192.0.0.0/24"),  # RFC 6890; Python 3.11 knows only parts of it
    IPv4Network("192.88.99.0/24"),  # RFC 7526
    IPv4Network("168.63.129.16/32"),  # where Azure's virtual machines ask their host
)


def is_public(address: str) -> bool:
    """Whether it is a unicast address of the public internet, all the way in; False for what is no address."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv4Address):
        refused = found.is_multicast or found.is_reserved or any(found in network for network in _NOT_GLOBAL)
        return found.is_global and not refused
    wrapped = _wrapped(found)
    if wrapped is not None:
        return is_public(str(wrapped))
    return found in _UNICAST and found.is_global and not found.is_multicast and found.scope_id is None


def _wrapped(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that packets to this one end at."""
    if found := address.ipv4_mapped or address.sixtofour:
        return found
    is_isatap = (int(address) >> 32) & 0xFDFF_FFFF == _ISATAP
    if address in _NAT64 or address in _COMPATIBLE or is_isatap:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return None
