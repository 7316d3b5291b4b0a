"""Bytes that no correct client of Kafka sends: truncated requests, flipped bits, and wrong lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from random import Random
from typing import Final

from kraft.wire.api_keys import ApiKey, request_type
from kraft.wire.api_versions import is_served
from kraft.wire.frame import encode_request
from tests.support.random_messages import random_message

_SEED: Final = 7
_MESSAGES_A_VERSION: Final = 4
_GOLDEN: Final = Path(__file__).parents[2] / "golden" / "requests"
_LIES: Final = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff", b"\x7f\xff", b"\x80\x00", b"\x80")
_SIZE_BYTES: Final = 4

_HARMLESS: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.API_VERSIONS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
    }
)
"""APIs that change nothing in a cluster by chance. A request that is still well-formed after the damage is carried out;
the others, which could delete or unregister what the run needs, are only sent in forms that cannot be well-formed."""


class Damage(Enum):
    NOISE = "noise"
    BODY = "a header, then noise"
    CUT_OFF = "cut off"
    FLIPPED = "flipped bits"
    LYING = "a length inside that lies"
    SIZE = "a size that lies"


class Garbage:
    """Frames with their sizes, of every API and version that the node serves."""

    def __init__(self, served: Iterable[ApiKey]) -> None:
        chance = Random(_SEED)
        self._whole: dict[tuple[ApiKey, int], list[bytes]] = {}
        for key in served:
            for version in request_type(key).versions:
                if is_served(key, version):
                    messages = (random_message(request_type(key), version, chance) for _ in range(_MESSAGES_A_VERSION))
                    self._whole[key, version] = [
                        b"".join(encode_request(message, version, 1, "garbage"))[_SIZE_BYTES:][:4_000]
                        for message in messages
                    ]
        for file in sorted(_GOLDEN.glob("*.bin")):
            frame = file.read_bytes()
            pair = ApiKey(int.from_bytes(frame[:2], "big")), int.from_bytes(frame[2:4], "big")
            if pair in self._whole:
                self._whole[pair].append(frame)
        self._pairs = list(self._whole)
        self._damages: Mapping[Damage, Callable[[bytes, Random], bytes]] = {
            Damage.BODY: _noise_behind_the_header,
            Damage.CUT_OFF: _cut_off,
            Damage.FLIPPED: _flipped,
            Damage.LYING: _lying,
        }

    @property
    def pairs(self) -> list[tuple[ApiKey, int]]:
        return self._pairs

    def frame(self, number: int, chance: Random) -> tuple[Damage, bytes]:
        """The kinds take turns with every API and version, so that `number` from 0 on meets all of them."""
        kinds = list(Damage)
        key, version = self._pairs[number // len(kinds) % len(self._pairs)]
        kind = kinds[number % len(kinds)]
        if kind is Damage.NOISE:
            return kind, _sized(chance.randbytes(chance.randrange(8, 300)))
        whole = chance.choice(self._whole[key, version])
        if kind is Damage.SIZE:
            return kind, _with_a_wrong_size(whole, chance)
        if key not in _HARMLESS:
            kind = Damage.CUT_OFF
        return kind, _sized(self._damages[kind](whole, chance))


def _sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(_SIZE_BYTES, "big") + frame


def _noise_behind_the_header(whole: bytes, chance: Random) -> bytes:
    return whole[:8] + b"\xff\xff" + chance.randbytes(chance.randrange(300))


def _cut_off(whole: bytes, chance: Random) -> bytes:
    return whole[: chance.randrange(8, max(9, len(whole)))]


def _flipped(whole: bytes, chance: Random) -> bytes:
    data = bytearray(whole)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def _lying(whole: bytes, chance: Random) -> bytes:
    position, lie = chance.randrange(8, len(whole) + 1), chance.choice(_LIES)
    return whole[:position] + lie + whole[position + len(lie) :]


def _with_a_wrong_size(whole: bytes, chance: Random) -> bytes:
    """Negative, tiny, above the cap, or larger than what comes: then the rest never arrives."""
    size = chance.choice((-1, -(1 << 31), 0, 7, (1 << 31) - 1, 17 << 20, len(whole) + chance.randrange(1, 5_000)))
    return size.to_bytes(_SIZE_BYTES, "big", signed=True) + whole
