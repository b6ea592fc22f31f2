"""Files of TensorBoard events: records with checksums around messages of protocol buffers."""

import os
import socket
import struct
import time

__all__ = ["EventFile", "histogram", "image", "message", "text"]


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def _masked_crc(data):
    """CRC-32C, rotated and shifted as the format of records has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(number):
    number &= 2**64 - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def message(*fields):
    """A message of (number, type, value): types are "int", "double", "float", "bytes" and "doubles"; None is left out."""
    out = bytearray()
    for number, kind, value in fields:
        if value is None:
            continue
        if kind == "int":
            out += _varint(number << 3) + _varint(value)
        elif kind == "double":
            out += _varint(number << 3 | 1) + struct.pack("<d", value)
        elif kind == "float":
            out += _varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            data = struct.pack(f"<{len(value)}d", *value) if kind == "doubles" else value.encode() if isinstance(value, str) else value
            out += _varint(number << 3 | 2) + _varint(len(data)) + data
    return bytes(out)


def image(height, width, channels, png):
    return message((1, "int", height), (2, "int", width), (3, "int", channels), (4, "bytes", png))


def histogram(lowest, highest, count, total, squares, limits, counts):
    return message((1, "double", lowest), (2, "double", highest), (3, "double", count), (4, "double", total),
                   (5, "double", squares), (6, "doubles", limits), (7, "doubles", counts))


def text(content):
    """(metadata, tensor) of a value that the plugin for texts shows."""
    plugin = message((1, "bytes", message((1, "bytes", "text"), (2, "bytes", message((1, "int", 0))))))
    shape = message((2, "bytes", message((1, "int", 1))))
    return plugin, message((1, "int", 7), (2, "bytes", shape), (8, "bytes", content))


class EventFile:
    """A new file of events in a folder."""

    _made = 0

    def __init__(self, folder, suffix=""):
        os.makedirs(folder, exist_ok=True)
        EventFile._made += 1
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{EventFile._made}{suffix}"
        self._file = open(os.path.join(folder, name), "wb")
        self._write(message((1, "double", time.time()), (3, "bytes", "brain.Event:2")))

    def _write(self, data):
        length = struct.pack("<Q", len(data))
        self._file.write(length + struct.pack("<I", _masked_crc(length)) + data + struct.pack("<I", _masked_crc(data)))

    def add(self, tag, step, walltime, *fields):
        """A value of a summary, with fields such as (2, "float", 0.5)."""
        value = message((1, "bytes", tag), *fields)
        self._write(message((1, "double", walltime), (2, "int", int(step or 0)), (5, "bytes", message((1, "bytes", value)))))

    def add_graph(self, graph, walltime):
        self._write(message((1, "double", walltime), (4, "bytes", graph)))

    def flush(self):
        self._file.flush()

    def close(self):
        self._file.close()
