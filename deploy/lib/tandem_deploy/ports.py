"""Owns the choice of TCP ports on 127.0.0.1.

A port is chosen at random outside the kernel's range for outgoing connections, so that a
server which was killed finds its port free when it comes back. A chosen port is reserved
against other runs of these scripts (by an abstract socket, which the kernel drops with this
process) until the server itself listens on it. Programs that are not ours can still take it in
that time; the server's start then fails and says so.
"""

import random
import socket
from pathlib import Path

from .console import Failure

LOW, HIGH = 20_000, 32_000
TRIES = 500

_reserved = []


def choose(count):
    """This many ports that nobody uses."""
    low, high = _range()
    chosen = []
    for _ in range(TRIES):
        port = random.randrange(low, high)
        if port not in chosen and _reserve(port):
            chosen.append(port)
            if len(chosen) == count:
                return chosen
    raise Failure(f"no free TCP port between {low} and {high} on 127.0.0.1")


def is_free(port):
    """Whether a server could listen on this port, on 127.0.0.1 or on all addresses."""
    addresses = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0")]
    if socket.has_ipv6 and Path("/proc/net/if_inet6").exists():
        addresses.append((socket.AF_INET6, "::1"))
    for family, address in addresses:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As the servers do: what a killed predecessor left in TIME_WAIT is no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return False
    return True


def require_free(port, what):
    """Fails when the port recorded for a server has been taken by another program."""
    if not is_free(port):
        raise Failure(
            f"port {port}, recorded for {what}, is used by another program: "
            "end that program, or start afresh after `deploy/down --wipe`"
        )


def _range():
    """The ports to choose from: below the range for outgoing connections where possible."""
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
        outgoing_low = int(text.split()[0])
    except (OSError, ValueError, IndexError):
        return LOW, HIGH
    return (LOW, min(HIGH, outgoing_low)) if outgoing_low > LOW + 1000 else (LOW, HIGH)


def _reserve(port):
    reservation = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        reservation.bind(f"\0tandem-port-{port}")
    except OSError:
        reservation.close()
        return False
    if not is_free(port):
        reservation.close()
        return False
    _reserved.append(reservation)
    return True
