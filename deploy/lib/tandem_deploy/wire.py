"""Owns reading from a socket under one deadline, for both protocols."""

import socket


def connect(port, limit_s):
    """A connection to 127.0.0.1; each read or write on it has the limit."""
    return socket.create_connection(("127.0.0.1", port), timeout=limit_s)


def read_exactly(connection, size):
    """This many bytes; ConnectionError when the peer closes before."""
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("closed by the server")
        data += part
    return bytes(data)
