"""The few netlink messages that a node's own network needs. Standard library only, because launcher processes use it.

A `Netlink` acts on the network namespace in which it was created.
"""

from __future__ import annotations

import os
import socket
import struct

RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE = 16, 20, 24
NLM_F_REQUEST, NLM_F_ACK, NLM_F_EXCL, NLM_F_CREATE = 1, 4, 0x200, 0x400
NLMSG_ERROR = 2
IFF_UP = 1
IFLA_IFNAME, IFLA_MTU, IFLA_LINKINFO, IFLA_NET_NS_FD = 3, 4, 18, 28
IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER = 1, 2, 1
IFA_ADDRESS, IFA_LOCAL = 1, 2
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PREFSRC = 1, 4, 5, 7
RT_TABLE_MAIN, RTPROT_STATIC = 254, 4
SCOPE_UNIVERSE, SCOPE_LINK, SCOPE_HOST = 0, 253, 254
UNICAST, LOCAL, UNREACHABLE = 1, 2, 7
RTNH_F_ONLINK = 4
MTU = 65535  # packets between two nodes stay in memory

NETLINK_NETFILTER, NFNL_SUBSYS_NFTABLES = 12, 10  # message types carry the subsystem in their upper byte
NFT_NEWTABLE, NFT_NEWCHAIN, NFT_NEWRULE = 0, 3, 6
NFNL_BATCH_BEGIN, NFNL_BATCH_END = 16, 17


def attribute(kind: int, *parts: bytes) -> bytes:
    """Encodes one attribute: length, kind, and the parts as its padded value."""
    value = b"".join(parts)
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def nested(kind: int, *parts: bytes) -> bytes:
    return attribute(kind | 0x8000, *parts)


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def number(kind: int, value: int) -> bytes:
    """Encodes a number as netfilter tables expect it: big-endian."""
    return attribute(kind, struct.pack(">I", value))


class Netlink:
    """Requests about links, addresses and routes. Every method raises OSError when the kernel refuses."""

    def __init__(self, family: int = socket.NETLINK_ROUTE) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
        self._socket.bind((0, 0))

    def close(self) -> None:
        self._socket.close()

    def send(self, kind: int, body: bytes, flags: int = 0) -> None:
        """Sends one request; returns when the kernel has completed it."""
        self._socket.send(message(kind, NLM_F_REQUEST | NLM_F_ACK | flags, 1, body))
        self._await(1)

    def _await(self, count: int) -> None:
        while count:
            data = self._socket.recv(65536)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                if kind == NLMSG_ERROR:
                    code = -struct.unpack_from("=i", data, 16)[0]
                    if code:
                        raise OSError(code, os.strerror(code))
                    count -= 1
                data = data[(length + 3) & ~3 :]

    def make_pair(self, name: str, peer: str, peer_namespace: int) -> None:
        """Makes two connected devices, one here and one in the namespace of the descriptor."""
        there = struct.pack("=BxHiII", 0, 0, 0, 0, 0) + text(IFLA_IFNAME, peer) + attribute(IFLA_MTU, struct.pack("=I", MTU))
        there += attribute(IFLA_NET_NS_FD, struct.pack("=I", peer_namespace))
        info = nested(IFLA_LINKINFO, text(IFLA_INFO_KIND, "veth"), nested(IFLA_INFO_DATA, nested(VETH_INFO_PEER, there)))
        body = (
            struct.pack("=BxHiII", 0, 0, 0, 0, 0) + text(IFLA_IFNAME, name) + attribute(IFLA_MTU, struct.pack("=I", MTU)) + info
        )
        self.send(RTM_NEWLINK, body, NLM_F_CREATE | NLM_F_EXCL)

    def up(self, name: str) -> None:
        self.send(RTM_NEWLINK, struct.pack("=BxHiII", 0, 0, socket.if_nametoindex(name), IFF_UP, IFF_UP))

    def add_address(self, name: str, address: str) -> None:
        """Adds a /32 address."""
        local = socket.inet_aton(address)
        body = struct.pack("=BBBBI", socket.AF_INET, 32, 0, SCOPE_UNIVERSE, socket.if_nametoindex(name))
        self.send(RTM_NEWADDR, body + attribute(IFA_LOCAL, local) + attribute(IFA_ADDRESS, local), NLM_F_CREATE | NLM_F_EXCL)

    def add_route(self, network: str, *, device: str, kind: int = UNICAST, gateway: str = "", source: str = "") -> None:
        """Adds a route to `network` (address/length) to the main table; more specific routes take precedence."""
        address, _, length = network.partition("/")
        scope = SCOPE_HOST if kind == LOCAL else SCOPE_UNIVERSE if gateway or kind == UNREACHABLE else SCOPE_LINK
        flags = RTNH_F_ONLINK if gateway else 0
        body = struct.pack("=BBBBBBBBI", socket.AF_INET, int(length), 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, scope, kind, flags)
        body += attribute(RTA_DST, socket.inet_aton(address)) if int(length) else b""
        body += attribute(RTA_OIF, struct.pack("=I", socket.if_nametoindex(device))) if device else b""
        body += attribute(RTA_GATEWAY, socket.inet_aton(gateway)) if gateway else b""
        body += attribute(RTA_PREFSRC, socket.inet_aton(source)) if source else b""
        self.send(RTM_NEWROUTE, body, NLM_F_CREATE)

    def send_batch(self, requests: list[tuple[int, bytes]]) -> None:
        """Sends requests to the netfilter tables; the kernel does all of them or none."""
        edge = struct.pack(">BBH", 0, 0, NFNL_SUBSYS_NFTABLES)
        data = message(NFNL_BATCH_BEGIN, NLM_F_REQUEST, 0, edge)
        for index, (kind, body) in enumerate(requests):
            header = struct.pack(">BBH", socket.AF_INET, 0, 0)
            data += message(NFNL_SUBSYS_NFTABLES << 8 | kind, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE, index + 1, header + body)
        self._socket.send(data + message(NFNL_BATCH_END, NLM_F_REQUEST, len(requests) + 1, edge))
        self._await(len(requests))


def message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, flags, sequence, 0) + body


def redirect_all_tcp(port: int, *, but: list[str]) -> None:
    """Redirects every TCP connection made in this namespace to `port` on its loopback, except to the networks in `but`.

    Raises OSError if the kernel has no netfilter tables, or none with address translation.
    """
    expressions = [_expression("meta", number(1, 1), number(2, 16)), _compare(bytes([socket.IPPROTO_TCP]))]
    for network in but:
        address, _, length = network.partition("/")
        mask = struct.pack(">I", (0xFFFFFFFF << (32 - int(length))) & 0xFFFFFFFF)
        expressions.append(_expression("payload", number(1, 1), number(2, 1), number(3, 16), number(4, 4)))
        masked = [number(1, 1), number(2, 1), number(3, 4), nested(4, attribute(1, mask)), nested(5, attribute(1, b"\0" * 4))]
        expressions += [_expression("bitwise", *masked), _compare(socket.inet_aton(address), equal=False)]
    expressions.append(_expression("immediate", number(1, 1), nested(2, attribute(1, struct.pack(">H", port)))))
    expressions.append(_expression("redir", number(1, 1)))
    table = text(1, "out")
    hook = nested(4, number(1, 3), number(2, 0xFFFFFF9C))  # output; priority -100: translation of destinations
    netlink = Netlink(NETLINK_NETFILTER)
    try:
        netlink.send_batch(
            [
                (NFT_NEWTABLE, table),
                (NFT_NEWCHAIN, table + text(3, "out") + hook + text(7, "nat")),
                (NFT_NEWRULE, table + text(2, "out") + nested(4, *expressions)),
            ]
        )
    finally:
        netlink.close()


def _expression(name: str, *fields: bytes) -> bytes:
    return nested(1, text(1, name), nested(2, *fields))


def _compare(value: bytes, *, equal: bool = True) -> bytes:
    return _expression("cmp", number(1, 1), number(2, 0 if equal else 1), nested(3, attribute(1, value)))
