"""Owns one thing: sending a command to a `mongod` and reading its reply (OP_MSG).

A connection per command, no authentication, no TLS: it is for servers that these scripts have
started themselves. A refused command raises `CommandFailed` with the server's code; a server
that cannot be reached, or answers nonsense, raises OSError.
"""

import struct

from . import bson
from .wire import connect, read_exactly

OP_MSG = 2013
HEADER = struct.Struct("<iiii")
REPLY_MAX_BYTES = 48_000_000
LIMIT_S = 5


class CommandFailed(Exception):
    """The server's own refusal."""

    def __init__(self, reply):
        super().__init__(reply.get("errmsg", "command failed"))
        self.code = reply.get("code")


def command(port, body, limit_s=LIMIT_S):
    """Runs one command on the `admin` database; returns the reply."""
    message = struct.pack("<I", 0) + b"\0" + bson.encode({**body, "$db": "admin"})
    with connect(port, limit_s) as connection:
        connection.sendall(HEADER.pack(HEADER.size + len(message), 1, 0, OP_MSG) + message)
        size, _, _, opcode = HEADER.unpack(read_exactly(connection, HEADER.size))
        if opcode != OP_MSG or not HEADER.size < size <= REPLY_MAX_BYTES:
            raise ConnectionError("not a MongoDB server")
        # Four bytes of flags and one that says: a single document follows.
        reply = bson.decode(read_exactly(connection, size - HEADER.size)[5:])
    if reply.get("ok") != 1:
        raise CommandFailed(reply)
    return reply
