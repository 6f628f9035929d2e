"""Owns BSON, as far as MongoDB's administrative commands and their replies need it.

Encodes dict, list, str, bool, int, float and None; decodes every type that a reply can carry,
the rare ones (ObjectId, Decimal128, binary data) as bytes. An unknown type is a ValueError.
"""

import struct


def encode(document):
    """A dict (or, for arrays, a dict of indices) as BSON."""
    body = b"".join(_element(name, value) for name, value in document.items())
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def _element(name, value):
    kind, payload = _value(value)
    return bytes([kind]) + name.encode() + b"\0" + payload


def _value(value):
    if value is None:
        return 0x0A, b""
    if isinstance(value, bool):  # Before int: bool is one.
        return 0x08, bytes([value])
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return 0x10, struct.pack("<i", value)
        return 0x12, struct.pack("<q", value)
    if isinstance(value, float):
        return 0x01, struct.pack("<d", value)
    if isinstance(value, str):
        text = value.encode() + b"\0"
        return 0x02, struct.pack("<i", len(text)) + text
    if isinstance(value, dict):
        return 0x03, encode(value)
    if isinstance(value, list):
        return 0x04, encode({str(index): item for index, item in enumerate(value)})
    raise ValueError(f"no BSON for {type(value).__name__}")


def decode(data):
    """BSON as a dict."""
    return _document(data, 0)[0]


def _document(data, at):
    end = at + struct.unpack_from("<i", data, at)[0]
    at += 4
    document = {}
    while data[at]:
        kind = data[at]
        zero = data.index(0, at + 1)
        name = data[at + 1 : zero].decode()
        document[name], at = _read(kind, data, zero + 1)
    return document, end


_FIXED = {
    0x01: ("<d", 8),  # double
    0x09: ("<q", 8),  # date, milliseconds
    0x10: ("<i", 4),
    0x11: ("<Q", 8),  # timestamp
    0x12: ("<q", 8),
}
_RAW = {0x07: 12, 0x13: 16}  # ObjectId, Decimal128
_EMPTY = {0x06: None, 0x0A: None, 0x7F: "MaxKey", 0xFF: "MinKey"}


def _read(kind, data, at):
    if kind in _FIXED:
        layout, size = _FIXED[kind]
        return struct.unpack_from(layout, data, at)[0], at + size
    if kind in _RAW:
        return data[at : at + _RAW[kind]], at + _RAW[kind]
    if kind in _EMPTY:
        return _EMPTY[kind], at
    if kind == 0x08:
        return data[at] == 1, at + 1
    if kind in (0x03, 0x04):
        inner, end = _document(data, at)
        return (inner if kind == 0x03 else list(inner.values())), end
    size = struct.unpack_from("<i", data, at)[0]
    if kind == 0x02:
        return data[at + 4 : at + 3 + size].decode(), at + 4 + size
    if kind == 0x05:  # A length, a subtype, the bytes.
        return data[at + 5 : at + 5 + size], at + 5 + size
    raise ValueError(f"unknown BSON type {kind:#x}")
