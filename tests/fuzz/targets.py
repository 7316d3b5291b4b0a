"""The fuzz targets: every decoder of bytes from the network or from a disk.

A target takes any bytes and returns. It fails by raising an exception that the decoder does not document, or an
AssertionError for a property of the decoded value. Where a checksum would reject nearly every input, the target tries
the input unchanged, and then with a correct checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from types import ModuleType
from typing import Final, TypeVar

from crc32c import crc32c

from kraft.client.sans_io.group.consumer_protocol import (
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupMember
from kraft.coordinator.classic.subscriptions import subscribed_topics
from kraft.coordinator.group_record import GroupRecord, InvalidGroupRecord
from kraft.coordinator.group_record_codec import decode as decode_group_record
from kraft.coordinator.group_record_codec import encode as encode_group_record
from kraft.log.format import record_codec
from kraft.log.format.arrow_columns import ArrowColumns, WantedColumns
from kraft.log.format.compression import Codec, compress, decompress, decompressed_bytes_max
from kraft.log.format.control_record import decode_marker
from kraft.log.format.record_batch import (
    HEADER_BYTES,
    build_batch,
    decode_batch_columns,
    iter_records,
    read_header,
    rebuild_batch,
    split,
    validate,
)
from kraft.log.leader_epochs import EpochStart, LeaderEpochCache
from kraft.log.recovery.log_checkpoint import LogCheckpoint
from kraft.log.recovery.producer_snapshot import decode_snapshot
from kraft.log.segment.offset_index import OffsetIndex
from kraft.log.segment.time_index import TimeIndex
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.errors import Corruption, InvalidBatch
from kraft.model.ids import LeaderEpoch, Offset, TopicPartition
from kraft.model.name_regex import NameRegex, regex_error
from kraft.wire.errors import ProtocolError
from tests.fuzz.console_records import (
    avro_record,
    avro_records,
    protobuf_record,
    protobuf_records,
    shown_record,
    shown_records,
)
from tests.fuzz.group_conversations import converse
from tests.fuzz.group_seeds import conversations
from tests.fuzz.logins import log_in, logins
from tests.fuzz.partition_files import open_and_read, partition_files, verify_and_inspect
from tests.fuzz.replica_frames import (
    node_connection,
    node_connections,
    replica_fetch_request,
    replica_fetch_requests,
    replica_fetch_response,
    replica_fetch_responses,
)
from tests.fuzz.tls_bytes import tls_bytes, tls_conversations
from tests.fuzz.tokens import key_sets, token_keys, tokens, verify_token
from tests.fuzz.transaction_records import transaction_record, transaction_records
from tests.fuzz.wire_frames import read_request, read_response, request_frames, responses
from tests.golden.group_records import RECORDS as GROUP_RECORDS
from tests.support.arrow_columns import lists_of
from tests.support.classic_requests import offered
from tests.support.log.codec_variants import outcomes, pure_arrow_columns, pure_codec

TEXT: Final = b"the quick brown fox jumps over the lazy dog, " * 4
_RECORDS: Final = [
    record_codec.Record(0, 1000, b"key", b"value", (("name", b"x"), ("null", None))),
    record_codec.Record(1, 900, None, TEXT),
    record_codec.Record(2, 5_000_000_000, b"", None),
]
Input = TypeVar("Input")

_CONTROL_RECORD: Final = bytes.fromhex("04 00000001 000000000007")
_OFFSET_INDEX: Final = struct.pack(">IIIIII", 9, 0, 20, 4096, 31, 8192)
_TIME_INDEX: Final = struct.pack(">qIqI", 1000, 9, 2000, 20)
_UINT32: Final = struct.Struct(">I")
_CRC_COVERS_FROM: Final = 21


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A decoder to fuzz."""

    name: str
    run: Callable[[bytes], None]
    make_seeds: Callable[[], tuple[bytes, ...]]

    def seeds(self) -> tuple[bytes, ...]:
        """Return valid inputs, which mutation then damages."""
        return self.make_seeds()


def targets() -> dict[str, Target]:
    found = [
        Target(name="batch", run=_batch, make_seeds=_batches),
        Target(name="records", run=_records, make_seeds=lambda: (b"\x03" + _payload(),)),
        Target(name="arrow-columns", run=_arrow_columns, make_seeds=lambda: (b"\x03\x02" + _payload(),)),
        Target(name="control-record", run=_control_record, make_seeds=lambda: (_CONTROL_RECORD,)),
        Target(name="offset-index", run=_offset_index, make_seeds=lambda: (_OFFSET_INDEX,)),
        Target(name="time-index", run=_time_index, make_seeds=lambda: (_TIME_INDEX,)),
        Target(name="leader-epochs", run=_leader_epochs, make_seeds=_leader_epoch_files),
        Target(name="log-checkpoint", run=_log_checkpoint, make_seeds=_log_checkpoint_files),
        Target(name="producer-snapshot", run=_producer_snapshot, make_seeds=_producer_snapshots),
        Target(name="group-record", run=_group_record, make_seeds=_group_records),
        Target(name="transaction-record", run=transaction_record, make_seeds=transaction_records),
        Target(name="group-requests", run=converse, make_seeds=conversations),
        Target(name="subscription", run=_subscription, make_seeds=_subscriptions),
        Target(name="name-regex", run=_name_regex, make_seeds=_name_regexes),
        Target(name="recovery", run=_recovery, make_seeds=_partition_files),
        Target(name="verification", run=_verification, make_seeds=_partition_files),
        Target(name="login", run=log_in, make_seeds=logins),
        Target(name="shown-record", run=shown_record, make_seeds=shown_records),
        Target(name="avro-record", run=avro_record, make_seeds=avro_records),
        Target(name="protobuf-record", run=protobuf_record, make_seeds=protobuf_records),
        Target(name="token", run=verify_token, make_seeds=tokens),
        Target(name="token-keys", run=token_keys, make_seeds=key_sets),
        Target(name="node-connection", run=node_connection, make_seeds=node_connections),
        Target(name="replica-fetch-request", run=replica_fetch_request, make_seeds=replica_fetch_requests),
        Target(name="replica-fetch-response", run=replica_fetch_response, make_seeds=replica_fetch_responses),
        Target(name="tls-bytes", run=tls_bytes, make_seeds=tls_conversations),
        Target(name="wire-request", run=read_request, make_seeds=request_frames),
        Target(name="wire-response", run=read_response, make_seeds=responses),
    ]
    for codec in Codec:
        seeds = partial(_batch_seeds, codec)
        found.append(Target(name=f"batch-{codec.config_name}", run=_batch_of(codec), make_seeds=seeds))
        if codec is not Codec.NONE:
            packed = partial(_packed, codec)
            found.append(Target(name=f"decompress-{codec.config_name}", run=_decompress(codec), make_seeds=packed))
    return {target.name: target for target in found}


# --- record batches ------------------------------------------------------------------------------------------


def _batches() -> tuple[bytes, ...]:
    return tuple(build_batch(_RECORDS, codec, 4000, 1, 7) for codec in Codec)


def _payload() -> bytes:
    return build_batch(_RECORDS)[HEADER_BYTES:]


def _batch(data: bytes) -> None:
    for read in (read_header, split, validate, decode_batch_columns, lambda data: list(iter_records(data))):
        _ignoring_invalid_batch(read, data)
    if len(data) >= HEADER_BYTES:
        _read_sealed(bytearray(data))


def _batch_of(codec: Codec) -> Callable[[bytes], None]:
    """The input is a record count (two bytes) and a payload, behind a header that is right."""
    header = bytearray(build_batch(_RECORDS)[:HEADER_BYTES])
    struct.pack_into(">h", header, 21, codec)

    def run(data: bytes) -> None:
        count = int.from_bytes(data[:2], "big")
        struct.pack_into(">i", header, 23, max(0, count - 1))
        struct.pack_into(">i", header, 57, count)
        _read_sealed(header + data[2:])

    return run


def _batch_seeds(codec: Codec) -> tuple[bytes, ...]:
    return (len(_RECORDS).to_bytes(2, "big") + compress(codec, _payload()),)


def _read_sealed(batch: bytearray) -> None:
    """Correct length and checksum, so that the code after their checks is reached."""
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    batch[16] = 2
    _UINT32.pack_into(batch, 17, crc32c(memoryview(batch)[_CRC_COVERS_FROM:]))
    _ignoring_invalid_batch(lambda data: list(iter_records(data)), batch)
    try:
        header = validate(batch)
        columns = decode_batch_columns(batch)
        rebuilt = rebuild_batch(header, columns)
    except InvalidBatch:
        return
    assert decode_batch_columns(rebuilt) == columns, "what was read is not what is read after writing it again"
    if header.is_control:
        for record in columns.to_records():
            _ignoring_invalid_batch(decode_marker, record)


@cache
def _interpreted() -> ModuleType:
    return pure_codec()


def interpreted_codec() -> ModuleType:
    """The one that `records` compares with the compiled one; a fuzzer may instrument it."""
    return _interpreted()


def _records(data: bytes) -> None:
    """The input is a record count (one byte) and a payload. Both codecs say the same of it."""
    count, payload = int.from_bytes(data[:1], "big"), data[1:]
    both = [outcomes(codec, payload, count) for codec in (record_codec, _interpreted())]
    assert both[0] == both[1], "the interpreted and the compiled codec do not agree"


def _arrow_columns(data: bytes) -> None:
    """The input is a record count and the records of a chunk (a byte each), and a payload. Both forms say the same."""
    count, records_max, payload = int.from_bytes(data[:1], "big"), int.from_bytes(data[1:2], "big"), data[2:]
    outcomes = [_columns_found(made, payload, count, records_max) for made in (ArrowColumns, _interpreted_columns())]
    assert outcomes[0] == outcomes[1], "the interpreted and the compiled decoder do not agree"


@cache
def _interpreted_columns() -> type[ArrowColumns]:
    found: type[ArrowColumns] = pure_arrow_columns().ArrowColumns
    return found


def _columns_found(made: type[ArrowColumns], payload: bytes, count: int, records_max: int) -> object:
    columns = made(WantedColumns(), records_max + 1, 1 << 20)
    found: list[object] = []
    try:
        columns.begin(count, len(payload), 5, 1_000, 1_000, None, 0, 1 << 40)
        position = columns.take(payload, 0, len(payload))
        while columns.is_full:
            found.append(lists_of(columns.finish()))
            position = columns.take(payload, position, len(payload))
    except InvalidBatch as error:
        return found, str(error)
    return found, position, columns.left, lists_of(columns.finish())


def _control_record(data: bytes) -> None:
    """The input is the length of the key (one byte), key and value."""
    key_end = 1 + int.from_bytes(data[:1], "big")
    _ignoring_invalid_batch(decode_marker, record_codec.Record(0, 0, data[1:key_end], data[key_end:]))


def _decompress(codec: Codec) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        try:
            unpacked = decompress(codec, data)
        except InvalidBatch:
            return
        assert len(unpacked) <= decompressed_bytes_max(len(data)), "more was unpacked than is allowed"

    return run


def _packed(codec: Codec) -> tuple[bytes, ...]:
    return tuple(compress(codec, data) for data in (b"", TEXT, bytes(100_000)))


def _ignoring_invalid_batch(read: Callable[[Input], object], data: Input) -> None:
    try:
        read(data)
    except InvalidBatch:
        return


# --- records of __consumer_offsets --------------------------------------------------------------------------


def _group_record(data: bytes) -> None:
    """The input is the length of the key (one byte), key and value."""
    key_end = 1 + int.from_bytes(data[:1], "big")
    try:
        decoded = decode_group_record(data[1:key_end], data[key_end:])
    except InvalidGroupRecord:
        return
    if isinstance(decoded, GroupRecord):
        assert decode_group_record(*encode_group_record(decoded)) == decoded


def _group_records() -> tuple[bytes, ...]:
    encoded = [encode_group_record(golden.record) for golden in GROUP_RECORDS]
    return tuple(bytes([len(key)]) + key + (value or b"") for key, value in encoded if len(key) < 256)


# --- what members of groups send -----------------------------------------------------------------------------


def _subscription(data: bytes) -> None:
    """Read as a coordinator does, and as the members that assign and are assigned to do."""
    protocols = (offered("range", data),)
    member = ClassicGroupMember(
        member_id="m",
        client_id="",
        client_host="",
        rebalance_timeout_ms=1,
        session_timeout_ms=1,
        protocols=protocols,
    )
    members = PersistentMap({"m": member})
    topics = subscribed_topics(ClassicGroup(group_id="g", protocol_type="consumer", protocol="range", members=members))
    try:
        subscription = decode_subscription(data)
    except ProtocolError:
        pass
    else:
        assert topics == subscription.topics, "coordinator and members do not agree"
        assert decode_subscription(encode_subscription(subscription)).topics == subscription.topics
    try:
        assignment = decode_assignment(data)
    except ProtocolError:
        return
    assert decode_assignment(encode_assignment(assignment)) == assignment


def _subscriptions() -> tuple[bytes, ...]:
    owned = frozenset({TopicPartition("orders", 0), TopicPartition("payments", 7)})
    subscription = MemberSubscription(topics=frozenset({"orders", "payments"}), owned=owned, generation=3, rack_id="a")
    return encode_subscription(subscription), encode_assignment(owned), b"\0\0" + encode_subscription(subscription)[2:]


def _name_regex(data: bytes) -> None:
    text = data.decode(errors="replace")
    if regex_error(text) is None:
        regex = NameRegex(text)
        for name in ("orders", "a" * 249, "pay-2024.dlq_0", "größe\n😀"):
            regex.matches(name)


def _name_regexes() -> tuple[bytes, ...]:
    return b"orders|pay.*", rb"(?i:[a-c\d-]+?){2,40}x*$", rb"^(?P<n>[[:alpha:]]*\.)+\x{61}[^\w]\Q.*\E"


# --- files of a partition ------------------------------------------------------------------------------------


def _offset_index(data: bytes) -> None:
    try:
        index = OffsetIndex.decode(data, base_offset=5, interval_bytes=4096, segment_bytes=1 << 20)
    except ValueError:
        return
    assert index.encode() == data, "an index is not written as it was read"
    for offset in (0, 5, 1000, 2**62):
        assert 0 <= index.entry_before_offset(offset)[1] < 1 << 20


def _time_index(data: bytes) -> None:
    try:
        index = TimeIndex.decode(data, base_offset=5)
    except ValueError:
        return
    assert index.encode() == data, "an index is not written as it was read"


def _leader_epochs(data: bytes) -> None:
    for content in (data, _sealed_text(data)):
        try:
            cache = LeaderEpochCache.decode(content, "leader-epoch-checkpoint")
        except Corruption:
            continue
        assert LeaderEpochCache.decode(cache.encode(), "again").entries == cache.entries
        cache.end_offset_for(LeaderEpoch(3), Offset(2**62))
        cache.epoch_at(Offset(100))


def _leader_epoch_files() -> tuple[bytes, ...]:
    entries = EpochStart(LeaderEpoch(1), Offset(0)), EpochStart(LeaderEpoch(4), Offset(900))
    return LeaderEpochCache(entries).encode(), b"0\n1\n3 70\n"


def _log_checkpoint(data: bytes) -> None:
    for content in (data, _sealed_text(data)):
        try:
            checkpoint = LogCheckpoint.decode(content, "log-checkpoint")
        except Corruption:
            continue
        assert LogCheckpoint.decode(checkpoint.encode(), "again") == checkpoint


def _log_checkpoint_files() -> tuple[bytes, ...]:
    checkpoint = LogCheckpoint(log_start_offset=Offset(5), recovery_point=Offset(900), is_sparse=True)
    return (checkpoint.encode(),)


def _sealed_text(data: bytes) -> bytes:
    content = data.rpartition(b"# crc32c=")[0] or data
    return content + f"# crc32c={crc32c(content):08x}\n".encode()


def _producer_snapshot(data: bytes) -> None:
    for content in (data, _sealed_snapshot(data)):
        try:
            decode_snapshot(content, "00000000000000000900.snapshot")
        except Corruption:
            continue


def _sealed_snapshot(data: bytes) -> bytes:
    return data[:2] + _UINT32.pack(crc32c(data[6:])) + data[6:]


def _producer_snapshots() -> tuple[bytes, ...]:
    return tuple(content for name, content in partition_files().items() if name.endswith(".snapshot"))


def _recovery(data: bytes) -> None:
    """The input is the number of a file (one byte) and its new content."""
    for files in _with_one_replaced(data):
        open_and_read(files)


def _verification(data: bytes) -> None:
    """The same, for `kraft log verify` and `kraft log dump`."""
    for files in _with_one_replaced(data):
        verify_and_inspect(files)


def _with_one_replaced(data: bytes) -> Iterator[dict[str, bytes]]:
    files = partition_files()
    name = sorted(files)[int.from_bytes(data[:1], "big") % len(files)]
    yield {**files, name: data[1:]}
    if (sealed := _sealed(name, data[1:])) != data[1:]:
        yield {**files, name: sealed}


def _sealed(name: str, data: bytes) -> bytes:
    if name.endswith(".snapshot"):
        return _sealed_snapshot(data)
    if name.endswith(".log"):
        return _sealed_batches(data)
    return _sealed_text(data) if name.endswith("checkpoint") else data


def _sealed_batches(data: bytes) -> bytes:
    """Return the data with correct checksums of all batches that are complete by their lengths."""
    sealed, start = bytearray(data), 0
    while start + HEADER_BYTES <= len(sealed):
        end = start + 12 + int.from_bytes(sealed[start + 8 : start + 12], "big")
        if not start + HEADER_BYTES <= end <= len(sealed):
            break
        _UINT32.pack_into(sealed, start + 17, crc32c(memoryview(sealed)[start + _CRC_COVERS_FROM : end]))
        start = end
    return bytes(sealed)


def _partition_files() -> tuple[bytes, ...]:
    files = sorted(partition_files().items())
    return tuple(bytes([number]) + content for number, (_, content) in enumerate(files))
