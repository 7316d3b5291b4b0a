"""Every single bit of a 64 KiB segment flipped, one at a time: none is served, none goes unnoticed.

`python -m tests.soak.bit_flips` tries all 524,288 bits in every situation and prints what it saw; the tests try a
part of them. A flip is noticed if Corruption is raised, or if recovery takes it, in the last batch above the recovery
point, for a torn write: then the batch is cut off and reported.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from random import Random
from typing import Final

from kraft.log.change import run_now
from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import HEADER_BYTES, build_batch, split
from kraft.log.format.record_codec import Record
from kraft.log.integrity.scrub import Expected, scrub_segment
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import Corruption
from kraft.model.ids import LeaderEpoch, Offset
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import SimDisk
from tests.support.log.log_building import NOW_MS
from tests.support.log.modelled_log import new_disk, open_log

SEGMENT_BYTES: Final = 64 << 10
BITS: Final = SEGMENT_BYTES * 8

_CONFIG: Final = TopicConfig(segment_bytes=SEGMENT_BYTES, index_interval_bytes=4096)
_READ_BYTES: Final = 1 << 20


class Situation(Enum):
    CLOSED_IN_USE = "a closed segment, while the log is open"
    CLOSED_AT_START = "a closed segment, found after a clean stop"
    CLOSED_AFTER_CRASH = "a closed segment, found after a crash"
    ACTIVE_IN_USE = "the active segment, while the log is open"
    ACTIVE_AT_START = "the active segment, found after a clean stop"
    ACTIVE_AFTER_CRASH = "the active segment, found after a crash, half of it above the recovery point"
    SCRUBBED = "a closed segment, scrubbed"


class Outcome(Enum):
    READ_REFUSED = "found when read"
    OPEN_REFUSED = "found when opened"
    CUT = "cut off as torn, and reported"
    SCRUBBED = "found by the scrub"
    SERVED = "SERVED"
    WITHHELD = "WITHHELD WITHOUT AN ERROR"
    UNNOTICED = "UNNOTICED"
    BROKE = "AN ERROR THAT IS NOT CORRUPTION"

    @property
    def is_bad(self) -> bool:
        return self in (Outcome.SERVED, Outcome.WITHHELD, Outcome.UNNOTICED, Outcome.BROKE)


def _request(random: Random, number: int, value_bytes: int) -> bytes:
    """A batch with values that are never zeros: a sector of zeros would be a lost write, not corruption."""
    values = [value_bytes // 3, value_bytes - value_bytes // 3] if value_bytes > 300 else [value_bytes]
    records = [
        Record(0, NOW_MS + number, b"key %d" % number, bytes(random.randrange(1, 256) for _ in range(size)))
        for size in values
    ]
    codec = (Codec.NONE, Codec.NONE, Codec.GZIP, Codec.NONE, Codec.ZSTD)[number % 5]
    producer = (7, 0, 0) if number == 3 else (-1, -1, -1)
    return build_batch(records, codec, *producer)


def _requests() -> Iterator[bytes]:
    """Yield batches of exactly 64 KiB in all."""
    random = Random(64)
    left, number = SEGMENT_BYTES, 0
    while left > 3000:
        request = _request(random, number, random.choice((40, 250, 900, 1900)))
        left -= len(request)
        yield request
        number += 1
    # Uncompressed, one more byte of a value is one more byte of the batch, except where the length field grows.
    number = number // 5 * 5
    sized = (_request(random, number, size) for size in range(left - 200, left))
    yield next(request for request in sized if len(request) == left)


class FlippedLog:
    """The log of one situation, and its expected content."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.disk: SimDisk = new_disk()
        log = open_log(self.disk, _CONFIG)
        requests = list(_requests())
        for number, request in enumerate(requests):
            if number == len(requests) // 2:
                # The recovery point is here from now on.
                log.close()
                log = open_log(self.disk, _CONFIG, clean_shutdown=True)
            log.append_as_leader(request, LeaderEpoch(number // 9 * 2), NOW_MS, run_now)
        self.path = log.segments()[0].path
        self.bytes = self.disk.read_file(self.path)
        assert len(self.bytes) == SEGMENT_BYTES
        self.is_closed = situation not in (
            Situation.ACTIVE_IN_USE,
            Situation.ACTIVE_AT_START,
            Situation.ACTIVE_AFTER_CRASH,
        )
        if self.is_closed:
            log.append_as_leader(_request(Random(1), 1, 300), LeaderEpoch(60), NOW_MS, run_now)
        ticket = log.prepare_sync()
        ticket.run()
        log.complete_sync(ticket, run_now)
        self.whole = b"".join(self.disk.read_file(segment.path) for segment in log.segments())
        self.end = log.log_end_offset
        self.epochs = log.epoch_cache
        self.batches = [(header, len(batch)) for header, batch in split(self.bytes)]
        self.bases = [header.base_offset for header, _ in self.batches]
        self.starts = [0]
        for _, size in self.batches:
            self.starts.append(self.starts[-1] + size)
        if situation in (Situation.CLOSED_AT_START, Situation.ACTIVE_AT_START):
            log.close()
        elif situation in (Situation.CLOSED_AFTER_CRASH, Situation.ACTIVE_AFTER_CRASH):
            self.disk.crash(CrashMode.KEEP, Random(0))
        self.log = log

    def try_bit(self, bit: int) -> Outcome:
        """Flip one bit, return the outcome, and restore the bit."""
        if self.situation in (Situation.CLOSED_IN_USE, Situation.ACTIVE_IN_USE):
            return self._in_use(bit)
        if self.situation is Situation.SCRUBBED:
            return self._flipped(bit, self._scrubbed)
        return self._opened(bit)

    def _flipped(self, bit: int, attempt: Callable[[], Outcome]) -> Outcome:
        self.disk.flip_bit(self.path, bit)
        try:
            return attempt()
        except (ArithmeticError, AssertionError, LookupError, OSError, TypeError, ValueError, struct.error):
            return Outcome.BROKE
        finally:
            self.disk.flip_bit(self.path, bit)

    def _in_use(self, bit: int) -> Outcome:
        outcome = self._flipped(bit, lambda: self._read(self.log, bit))
        if self._reads_differ(self.log, bit):
            # The log keeps in memory what the flip made it read; the next bit needs a log without that.
            self.log.release()
            self.log = open_log(self.disk, _CONFIG)
        return outcome

    def _opened(self, bit: int) -> Outcome:
        return self._flipped(bit, lambda: self._open(bit))

    def _open(self, bit: int) -> Outcome:
        disk = self.disk.clone()
        is_clean = self.situation in (Situation.CLOSED_AT_START, Situation.ACTIVE_AT_START)
        try:
            log = open_log(disk, _CONFIG, clean_shutdown=is_clean)
        except Corruption:
            return Outcome.OPEN_REFUSED
        if log.recovery_report.torn_at is None:
            return self._read(log, bit)
        last, _ = self.batches[-1]
        is_last = not self.is_closed and not is_clean and bit // 8 >= self.starts[-2]
        if is_last and log.recovery_report.torn_at == log.log_end_offset == last.base_offset:
            held = log.read(Offset(0), _READ_BYTES, log.log_end_offset)
            return Outcome.CUT if held == self.bytes[: self.starts[-2]] else Outcome.SERVED
        return Outcome.UNNOTICED

    def _scrubbed(self) -> Outcome:
        last, _ = self.batches[-1]
        expected = Expected(base_offset=Offset(0), end_offset=last.next_offset, epochs=self.epochs)
        found = scrub_segment(self.disk, self.path, expected, read_bytes=lambda _: None)
        return Outcome.SCRUBBED if found.problems else Outcome.UNNOTICED

    # --- reading ---------------------------------------------------------------------------------------------

    def _read(self, log: PartitionLog, bit: int) -> Outcome:
        """Read the whole log, then the batches around the flipped bit, as a consumer at that position does."""
        outcomes = [self._read_all(log), *(self._read_one(log, start) for start in self._starts_around(bit))]
        for outcome in (Outcome.SERVED, Outcome.WITHHELD):
            if outcome in outcomes:
                return outcome
        return outcomes[0]

    def _read_all(self, log: PartitionLog) -> Outcome:
        """Read the whole log; what is read before Corruption is raised must be right as well."""
        offset, position = Offset(0), 0
        try:
            while offset < self.end:
                data = log.read(offset, _READ_BYTES, self.end)
                if not data:
                    return Outcome.WITHHELD
                if data != self.whole[position : position + len(data)]:
                    return Outcome.SERVED
                position += len(data)
                offset = split(data)[-1][0].next_offset
        except Corruption:
            return Outcome.READ_REFUSED
        return Outcome.UNNOTICED

    def _read_one(self, log: PartitionLog, offset: int) -> Outcome:
        """Read the batch that holds the offset: the first of a read that begins there."""
        number = bisect_right(self.bases, offset) - 1
        try:
            data = log.read(Offset(offset), 1, self.end)
        except Corruption:
            return Outcome.READ_REFUSED
        if not data:
            return Outcome.WITHHELD
        is_right = data == self.bytes[self.starts[number] : self.starts[number + 1]]
        return Outcome.UNNOTICED if is_right else Outcome.SERVED

    def _starts_around(self, bit: int) -> Iterator[int]:
        """The first and last offset of the flipped batch, and the first of the next one."""
        number = self._batch_of(bit)
        header, _ = self.batches[number]
        yield header.base_offset
        yield header.last_offset
        if number + 1 < len(self.batches):
            yield header.next_offset

    def _batch_of(self, bit: int) -> int:
        return bisect_right(self.starts, bit // 8) - 1

    def _reads_differ(self, log: PartitionLog, bit: int) -> bool:
        return any(self._read_one(log, start) is not Outcome.UNNOTICED for start in self._starts_around(bit))

    # --- which bits ------------------------------------------------------------------------------------------

    def header_bits(self, batches: Iterable[int]) -> Iterator[int]:
        for number in batches:
            start = self.starts[:-1][number]
            yield from range(start * 8, (start + HEADER_BYTES) * 8)


def try_bits(
    situation: Situation, chosen: Callable[[FlippedLog], Iterable[int]]
) -> tuple[Counter[Outcome], dict[Outcome, int]]:
    """Return how often each outcome was seen, and the first bit of each."""
    flipped = FlippedLog(situation)
    seen: Counter[Outcome] = Counter()
    first: dict[Outcome, int] = {}
    for bit in chosen(flipped):
        outcome = flipped.try_bit(bit)
        seen[outcome] += 1
        first.setdefault(outcome, bit)
    return seen, first


def summary(situation: Situation, seen: Counter[Outcome]) -> str:
    outcomes = ", ".join(f"{count:,} {outcome.value}" for outcome, count in sorted(seen.items(), key=str))
    bad = sum(count for outcome, count in seen.items() if outcome.is_bad)
    tried = f"{seen.total():,} of {BITS:,} single bit flips in {situation.value}"
    return f"{tried}: {bad} served, withheld or unnoticed ({outcomes})"
