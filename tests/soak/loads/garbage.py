"""Bytes that no correct peer sends: those of a port scan, a fuzzer and an attacker."""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The beginning of each HTTP/2 connection, and so of each gRPC connection."""

_SETTINGS: Final = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_TLS_HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
_FRAME_TYPES: Final = 10


class Bomb:
    """A pickle that creates the file if a receiver unpickles it."""

    def __init__(self, canary: Path) -> None:
        self._canary = canary

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.open, (str(self._canary), os.O_CREAT | os.O_WRONLY)


def connection(chance: Random, canary: Path) -> list[bytes]:
    """Return the frames of one connection, of a random kind."""
    kinds: list[Callable[[Random, Path], list[bytes]]] = [_noise, _http2, _http2, _engine_frames, _tls, _text]
    return chance.choice(kinds)(chance, canary)


def message(chance: Random, canary: Path, *, well_formed: bool) -> bytes:
    """Return the request of one call: noise, or an attack; with `well_formed`, mostly protobuf without meaning."""
    kind = chance.randrange(4)
    if kind == 0:
        return pickle.dumps(Bomb(canary))
    if kind == 1 or not well_formed:
        return chance.randbytes(chance.randrange(8, 300))
    return b"".join(_fields(chance, canary, depth=0))


def _noise(chance: Random, _canary: Path) -> list[bytes]:
    return [chance.randbytes(chance.randrange(1, 2_000)) for _ in range(chance.randrange(1, 4))]


def _http2(chance: Random, _canary: Path) -> list[bytes]:
    """Return a preface, and frames of any type, length, flags and stream; their lengths are mostly right."""
    frames = [PREFACE + _SETTINGS]
    for _ in range(chance.randrange(1, 12)):
        payload = chance.randbytes(chance.randrange(200))
        length = len(payload) if chance.random() < 0.8 else chance.randrange(1 << 24)
        header = struct.pack(">I", length)[1:] + bytes((chance.randrange(_FRAME_TYPES + 2), chance.randrange(256)))
        frames.append(header + struct.pack(">I", chance.choice([0, 1, 3, chance.randrange(1 << 31)])) + payload)
    return frames


def _engine_frames(_chance: Random, canary: Path) -> list[bytes]:
    """Return pickles in the frames of the engine's own transport."""
    bomb = pickle.dumps(Bomb(canary))
    return [struct.pack("i", len(bomb)) + bomb, struct.pack("!i", len(bomb)) + bomb]


def _tls(chance: Random, _canary: Path) -> list[bytes]:
    return [_TLS_HELLO + chance.randbytes(506)]


def _text(chance: Random, _canary: Path) -> list[bytes]:
    return [chance.choice([b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"HELP\r\n", b"\x00" * 64, b"\xff" * 2_000])]


def _fields(chance: Random, canary: Path, depth: int) -> Iterator[bytes]:
    """Protobuf fields with small numbers, nested now and then, so that some of it is a message of the method."""
    for _ in range(chance.randrange(1, 6)):
        number = chance.randrange(1, 10)
        if chance.random() < 0.5:
            yield _varint(number << 3) + _varint(chance.choice([0, 1, 2, 100, 1 << 31, (1 << 64) - 1]))
            continue
        if depth < 3 and chance.random() < 0.5:
            content = b"".join(_fields(chance, canary, depth + 1))
        else:
            content = chance.choice([b"", b"a", bytes(16), pickle.dumps(Bomb(canary)), chance.randbytes(40)])
        yield _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))
