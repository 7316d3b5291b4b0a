"""The byte format of a journal segment: a header, then frames, each with the records of one sync.

    header   magic (8), format version (4), CRC-32C of these (4)
    frame    magic (4), length of the body (4), CRC-32C of position, length and body (4), body
    body     records, back to back: type (1), then
             entry       index (8), term (8), length (4), command
             vote        term (8), node id voted for (8, signed; -1 for none)
             truncation  first index that was truncated (8), term of the entry before it (8)
             base        index (8) and term (8) of the entry that replaces everything before this record
             trim        index (8) and term (8) of an entry: the entries before it are not needed
             start       number of the segment (8), index (8) and term (8) of the entry that it follows; the first
                         record of every segment but number 0
             membership  node id (8), incarnation (16), term after which the voter may vote (8, signed; -1 for a
                         learner), number of founders (4), each with node id (8) and incarnation (16)

Version 1 had a single segment. Its truncations (another type) have no term, and it has neither trims nor starts.
Version 2 had no memberships.

All numbers are big-endian. A frame is written only after the one before it was synced. So a crash can tear only the
last frame, and an invalid frame before a valid one is corruption. The CRC includes the position, so that bytes which
only look like a frame, such as a journal stored inside a command, do not count as one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum

from crc32c import crc32c
from msgspec import Struct

from kraft.model.errors import Corruption
from kraft.quorum.membership import INCARNATION_BYTES, Membership

FORMAT_VERSION = 3
NO_VOTE = -1
_LEARNER = -1

FRAME_BODY_BYTES_MAX = 32 * 1024 * 1024

_MAGIC = b"KRAFTQJ\0"
FRAME_MAGIC = b"\xf1KQF"

_HEADER = struct.Struct(">8sI")
_CRC = struct.Struct(">I")
_FRAME = struct.Struct(">4sII")
_CRC_SEED = struct.Struct(">QI")
FRAME_OVERHEAD_BYTES = _FRAME.size
_ENTRY = struct.Struct(">BQQI")
_VOTE = struct.Struct(">BQq")
_TRUNCATION_1 = struct.Struct(">BQ")
_POSITION = struct.Struct(">BQQ")
_START = struct.Struct(">BQQQ")
_MEMBERSHIP = struct.Struct(f">BQ{INCARNATION_BYTES}sqI")
_FOUNDER = struct.Struct(f">Q{INCARNATION_BYTES}s")

HEADER_BYTES = _HEADER.size + _CRC.size


class _Type(IntEnum):
    ENTRY = 1
    VOTE = 2
    TRUNCATION_1 = 3
    BASE = 4
    START = 5
    TRIM = 6
    TRUNCATION = 7
    MEMBERSHIP = 8


class EntryRecord(Struct, frozen=True, kw_only=True):
    index: int
    term: int
    command: bytes


class VoteRecord(Struct, frozen=True, kw_only=True):
    """The current term and the voter that was voted for in it."""

    term: int
    voted_for: int


class TruncationRecord(Struct, frozen=True, kw_only=True):
    """Entries from `from_index` on were removed. The entry before has the term; version 1 did not store it (None)."""

    from_index: int
    previous_term: int | None


class BaseRecord(Struct, frozen=True, kw_only=True):
    """Everything up to this entry, of that term, is in a snapshot and no longer in the journal."""

    index: int
    term: int


class TrimRecord(Struct, frozen=True, kw_only=True):
    """Everything before this entry, of that term, is in a snapshot. The entries after it stay."""

    index: int
    term: int


class StartRecord(Struct, frozen=True, kw_only=True):
    """Segment `number` continues after this entry, of that term; index 0 if there is none."""

    number: int
    index: int
    term: int


class MembershipRecord(Struct, frozen=True, kw_only=True):
    """The voter's membership from now on."""

    membership: Membership


JournalRecord = EntryRecord | VoteRecord | TruncationRecord | BaseRecord | TrimRecord | StartRecord | MembershipRecord


class Scan(Struct, frozen=True, kw_only=True):
    """Records of a journal segment. After the first `valid_bytes` there is at most a torn frame.

    `last_frame` is the byte at which the last valid frame begins; the end of the header if there is none.
    """

    records: list[JournalRecord]
    last_frame: int
    valid_bytes: int


def encode_header() -> bytes:
    header = _HEADER.pack(_MAGIC, FORMAT_VERSION)
    return header + _CRC.pack(crc32c(header))


def encode_entry(index: int, term: int, command: bytes) -> bytes:
    return _ENTRY.pack(_Type.ENTRY, index, term, len(command)) + command


def encode_vote(term: int, voted_for: int) -> bytes:
    return _VOTE.pack(_Type.VOTE, term, voted_for)


def encode_truncation(from_index: int, previous_term: int) -> bytes:
    return _POSITION.pack(_Type.TRUNCATION, from_index, previous_term)


def encode_base(index: int, term: int) -> bytes:
    return _POSITION.pack(_Type.BASE, index, term)


def encode_trim(index: int, term: int) -> bytes:
    return _POSITION.pack(_Type.TRIM, index, term)


def encode_start(number: int, index: int, term: int) -> bytes:
    return _START.pack(_Type.START, number, index, term)


def encode_membership(membership: Membership) -> bytes:
    admitted_after = _LEARNER if membership.admitted_after is None else membership.admitted_after
    founders = sorted(membership.founders.items())
    head = _MEMBERSHIP.pack(_Type.MEMBERSHIP, membership.node_id, membership.incarnation, admitted_after, len(founders))
    return head + b"".join(_FOUNDER.pack(voter, incarnation) for voter, incarnation in founders)


def encode_frame(position: int, body: bytes) -> bytes:
    return _FRAME.pack(FRAME_MAGIC, len(body), _frame_crc(position, body)) + body


def _frame_crc(position: int, body: bytes | memoryview) -> int:
    return crc32c(body, crc32c(_CRC_SEED.pack(position, len(body))))


class Frame(Struct, frozen=True, kw_only=True):
    """Records of one sync; the frame is the bytes from `position` to `end`."""

    position: int
    end: int
    records: list[JournalRecord]


def is_journal(data: bytes) -> bool:
    """Return whether the bytes begin like a journal's."""
    return data.startswith(_MAGIC)


def scan(file: str, data: bytes) -> Scan:
    """Return all records in a journal's bytes. Raises Corruption for a foreign header or corrupt bytes."""
    records: list[JournalRecord] = []
    last_frame = end = HEADER_BYTES
    for frame in frames(file, data):
        records += frame.records
        last_frame, end = frame.position, frame.end
    return Scan(records=records, last_frame=last_frame, valid_bytes=end)


def frames(file: str, data: bytes) -> Iterator[Frame]:
    """Yield the frames of a journal up to a torn one. Raises Corruption for a foreign header or corrupt bytes."""
    _check_header(file, data)
    position = HEADER_BYTES
    while (body := _frame_at(data, position)) is not None:
        end = position + _FRAME.size + len(body)
        yield Frame(position=position, end=end, records=list(_records(file, position, body)))
        position = end
    survivor = _next_frame(data, position + 1)
    if survivor is not None:
        raise Corruption(
            file,
            position,
            f"corrupt, but a later frame at byte {survivor} is intact: the disk changed synced bytes; check that the"
            " other voters are healthy, then move this directory away and start this voter again",
        )


def version_of(header: bytes) -> int:
    """Return the format version in a valid header."""
    return int(_HEADER.unpack_from(header)[1])


def _check_header(file: str, data: bytes) -> None:
    if len(data) < HEADER_BYTES or data[: len(_MAGIC)] != _MAGIC:
        raise Corruption(file, 0, "not a quorum journal")
    if _CRC.unpack_from(data, _HEADER.size)[0] != crc32c(data[: _HEADER.size]):
        raise Corruption(file, 0, "the header's CRC does not match")
    version = version_of(data)
    if not 1 <= version <= FORMAT_VERSION:
        readable = f"this version of Kraft reads versions 1 to {FORMAT_VERSION}"
        raise Corruption(file, len(_MAGIC), f"format version {version}; {readable}")


def _frame_at(data: bytes, position: int) -> bytes | None:
    """Return the body of the frame at `position`, None if there is no complete valid one."""
    if position + _FRAME.size > len(data):
        return None
    magic, length, checksum = _FRAME.unpack_from(data, position)
    start = position + _FRAME.size
    if magic != FRAME_MAGIC or not 0 < length <= FRAME_BODY_BYTES_MAX or start + length > len(data):
        return None
    body = data[start : start + length]
    return body if _frame_crc(position, body) == checksum else None


def _next_frame(data: bytes, position: int) -> int | None:
    """Return the byte at which the first valid frame at or after `position` begins."""
    while (position := data.find(FRAME_MAGIC, position)) >= 0:
        if _frame_at(data, position) is not None:
            return position
        position += 1
    return None


def _records(file: str, frame_position: int, body: bytes) -> Iterator[JournalRecord]:
    position = 0
    while position < len(body):
        try:
            record, position = _record_at(body, position)
        except (struct.error, ValueError) as error:
            raise Corruption(file, frame_position, f"a valid frame with an unreadable record: {error}") from error
        yield record


def _record_at(body: bytes, position: int) -> tuple[JournalRecord, int]:
    """Return the record at `position` and the position of the next one."""
    match body[position]:
        case _Type.ENTRY:
            _, index, term, length = _ENTRY.unpack_from(body, position)
            start = position + _ENTRY.size
            if start + length > len(body):
                raise ValueError("an entry is longer than its frame")
            return EntryRecord(index=index, term=term, command=body[start : start + length]), start + length
        case _Type.VOTE:
            _, term, voted_for = _VOTE.unpack_from(body, position)
            return VoteRecord(term=term, voted_for=voted_for), position + _VOTE.size
        case _Type.TRUNCATION_1:
            _, from_index = _TRUNCATION_1.unpack_from(body, position)
            return TruncationRecord(from_index=from_index, previous_term=None), position + _TRUNCATION_1.size
        case _Type.TRUNCATION:
            _, from_index, term = _POSITION.unpack_from(body, position)
            return TruncationRecord(from_index=from_index, previous_term=term), position + _POSITION.size
        case _Type.BASE:
            _, index, term = _POSITION.unpack_from(body, position)
            return BaseRecord(index=index, term=term), position + _POSITION.size
        case _Type.TRIM:
            _, index, term = _POSITION.unpack_from(body, position)
            return TrimRecord(index=index, term=term), position + _POSITION.size
        case _Type.START:
            _, number, index, term = _START.unpack_from(body, position)
            return StartRecord(number=number, index=index, term=term), position + _START.size
        case _Type.MEMBERSHIP:
            return _membership_at(body, position)
        case unknown:
            raise ValueError(f"record type {unknown}")


def _membership_at(body: bytes, position: int) -> tuple[MembershipRecord, int]:
    _, node_id, incarnation, admitted_after, founder_count = _MEMBERSHIP.unpack_from(body, position)
    start = position + _MEMBERSHIP.size
    end = start + founder_count * _FOUNDER.size
    if end > len(body):
        raise ValueError("a membership is longer than its frame")
    membership = Membership(
        node_id=node_id,
        incarnation=incarnation,
        founders=dict(_FOUNDER.iter_unpack(body[start:end])),
        admitted_after=None if admitted_after == _LEARNER else admitted_after,
    )
    return MembershipRecord(membership=membership), end
