"""Owns one thing: finding out whether an AMQP 0-9-1 broker really serves.

`check` logs in, opens the virtual host and a channel, and declares an exclusive queue (the
broker drops it with the connection). Any other outcome raises OSError.
"""

import struct

from .wire import connect, read_exactly

PROTOCOL = b"AMQP\x00\x00\x09\x01"
METHOD_FRAME = 1
FRAME_END = 0xCE
FRAME_MAX_BYTES = 131_072
LIMIT_S = 5


def check(port, user="guest", password="guest", vhost="/", limit_s=LIMIT_S):
    """Raises OSError unless the broker accepts a login and declares a queue."""
    with connect(port, limit_s) as connection:
        connection.sendall(PROTOCOL)
        _expect(connection, 10, 10)  # connection.start
        login = _long(f"\0{user}\0{password}")
        _send(connection, 0, 10, 11, _long("") + _short("PLAIN") + login + _short("en_US"))
        channel_max, frame_max, _ = struct.unpack_from(">HIH", _expect(connection, 10, 30))
        _send(connection, 0, 10, 31, struct.pack(">HIH", channel_max, frame_max, 0))
        _send(connection, 0, 10, 40, _short(vhost) + _short("") + b"\0")
        _expect(connection, 10, 41)  # connection.open-ok
        _send(connection, 1, 20, 10, _short(""))
        _expect(connection, 20, 11)  # channel.open-ok
        exclusive = 0b0100
        _send(connection, 1, 50, 10, b"\0\0" + _short("") + bytes([exclusive]) + _long(""))
        _expect(connection, 50, 11)  # queue.declare-ok
        _send(connection, 0, 10, 50, struct.pack(">H", 200) + _short("") + b"\0\0\0\0")
        _expect(connection, 10, 51)  # connection.close-ok


def _short(text):
    return bytes([len(text)]) + text.encode()


def _long(text):
    """A long string; an empty one is also an empty table."""
    return struct.pack(">I", len(text)) + text.encode()


def _send(connection, channel, class_id, method_id, arguments):
    payload = struct.pack(">HH", class_id, method_id) + arguments
    header = struct.pack(">BHI", METHOD_FRAME, channel, len(payload))
    connection.sendall(header + payload + bytes([FRAME_END]))


def _expect(connection, class_id, method_id):
    """Reads the next frame, which must be this method; returns its arguments."""
    kind, _, size = struct.unpack(">BHI", read_exactly(connection, 7))
    if kind != METHOD_FRAME or size > FRAME_MAX_BYTES:
        raise ConnectionError("not an AMQP 0-9-1 broker")
    payload = read_exactly(connection, size + 1)[:-1]
    got = struct.unpack_from(">HH", payload)
    if got != (class_id, method_id):
        raise ConnectionError(f"expected AMQP method {class_id}.{method_id}, got {got[0]}.{got[1]}")
    return payload[4:]
