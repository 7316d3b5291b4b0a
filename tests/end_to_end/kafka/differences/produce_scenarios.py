"""Produce: what is appended, what is refused, and how."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from kraft.log.format.compression import Codec
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.init_producer_id import InitProducerIdRequest
from kraft.wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.end_to_end.kafka.differences.batches import NOW_MS, batch, changed, corrupted, old_message_set, with_magic
from tests.end_to_end.kafka.differences.peer import TIMEOUT_MS, Peer

VERSIONS: Final = range(3, 14)
_BY_ID_FROM: Final = 13
_DAY_MS: Final = 86_400_000
UNKNOWN_ID: Final = UUID(int=404)


def produce(
    version: int,
    topic: str,
    topic_id: UUID,
    *records: bytes | None,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """One request of records for partitions from `partition` on."""
    by_id = version >= _BY_ID_FROM
    data = tuple(PartitionProduceData(index=partition + n, records=each) for n, each in enumerate(records))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        topic_data=(
            TopicProduceData(
                name="" if by_id else topic, topic_id=topic_id if by_id else ZERO_UUID, partition_data=data
            ),
        ),
    )


def produce_sound_batches(peer: Peer) -> None:
    topic_id = peer.create_topic("sound")
    for version in VERSIONS:
        peer.ask(f"v{version}", produce(version, "sound", topic_id, batch("a", "b")), version)
    for codec in Codec:
        peer.ask(codec.name, produce(9, "sound", topic_id, batch("a", "b", codec=codec)), 9)
    peer.ask("acks=1", produce(9, "sound", topic_id, batch("a"), acks=1), 9)
    peer.ask("null key", produce(9, "sound", topic_id, batch("a", key=None)), 9)
    peer.ask("other base offset", produce(9, "sound", topic_id, b"\0" * 7 + b"\5" + batch("a")[8:]), 9)


def produce_to_unknown_places(peer: Peer) -> None:
    topic_id = peer.create_topic("known")
    for version in VERSIONS:
        peer.ask(f"v{version} topic", produce(version, "nowhere", UNKNOWN_ID, batch("a")), version)
        peer.ask(f"v{version} partition", produce(version, "known", topic_id, batch("a"), partition=1), version)
    peer.ask("negative partition", produce(9, "known", topic_id, batch("a"), partition=-1), 9)
    peer.ask("one of two partitions", produce(9, "known", topic_id, batch("a"), batch("b")), 9)
    peer.ask("invalid name", produce(9, "a/b", topic_id, batch("a")), 9)
    peer.ask("empty name", produce(9, "", topic_id, batch("a")), 9)
    peer.ask("no id", produce(13, "", ZERO_UUID, batch("a")), 13)
    peer.ask("no topics", ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=()), 9)
    known, unknown = produce(13, "", topic_id, batch("a")), produce(13, "", UNKNOWN_ID, batch("a"))
    both = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=(*unknown.topic_data, *known.topic_data))
    peer.ask("one of two ids", both, 13, keep=_by_id)


def _by_id(answer: Any) -> Any:
    return sorted(answer["responses"], key=str)


def produce_with_acks(peer: Peer) -> None:
    topic_id = peer.create_topic("acks")
    for version in (3, 9, 13):
        for acks in (2, -2):
            peer.ask(f"v{version} acks={acks}", produce(version, "acks", topic_id, batch("a"), acks=acks), version)
    peer.ask_nothing("acks=0", produce(9, "acks", topic_id, batch("a"), acks=0), 9)
    peer.ask_nothing("acks=0 unknown partition", produce(9, "acks", topic_id, batch("a"), partition=9, acks=0), 9)
    peer.ask_nothing("acks=0 corrupt", produce(9, "acks", topic_id, corrupted(batch("a")), acks=0), 9)
    peer.ask_nothing("acks=0 unknown topic", produce(9, "nowhere", topic_id, batch("a"), acks=0), 9)
    peer.ask_nothing("acks=0 unknown id", produce(13, "", UNKNOWN_ID, batch("a"), acks=0), 13)


def produce_broken_batches(peer: Peer) -> None:
    topic_id = peer.create_topic("broken")
    sound = batch("a", "b")
    broken = {
        "bad checksum": corrupted(sound),
        "magic 3": with_magic(sound, 3),
        "message set 0": old_message_set(0, b"a"),
        "message set 1": old_message_set(1, b"a"),
        "more records counted": changed(sound, record_count=3),
        "fewer records counted": changed(sound, record_count=1),
        "no record counted": changed(sound, record_count=0),
        "fewer offsets": changed(sound, last_offset_delta=0),
        "more offsets": changed(sound, last_offset_delta=5),
        "negative last offset delta": changed(sound, last_offset_delta=-1),
        "counts lie together": changed(sound, record_count=3, last_offset_delta=2),
        "control batch": changed(sound, attributes=0x20),
        "log append time": changed(sound, attributes=0x08),
        "unknown codec": changed(sound, attributes=0x07),
        "gzip that is none": changed(sound, attributes=0x01),
        "lz4 that is none": changed(sound, attributes=0x03),
        "unused attribute": changed(sound, attributes=0x100),
        "two batches": sound + sound,
        "a batch and a half": sound + sound[:30],
        "cut off": sound[:-3],
        "cut off in its header": sound[:40],
        "ten bytes": sound[:10],
        "empty": b"",
        "noise": bytes(range(200)),
        "sequence without producer": changed(sound, base_sequence=3),
        "wrong max timestamp": changed(sound, max_timestamp_ms=NOW_MS + 5_000),
    }
    for version in (3, 9, 13):
        for what, records in broken.items():
            request = produce(version, "broken", topic_id, records)
            peer.ask(f"v{version} {what}", request, version, keep=_whatever_offset)
    # Kafka fails on it, and leaves the client waiting.
    peer.ask("null", produce(9, "broken", topic_id, None), 9)
    peer.ask("zstd in version 6", produce(6, "broken", topic_id, batch("a", codec=Codec.ZSTD)), 6)
    peer.ask("transactional", produce(9, "broken", topic_id, changed(sound, attributes=0x10)), 9)
    with_producer = changed(sound, attributes=0x10, producer_id=7, producer_epoch=0, base_sequence=0)
    peer.ask("transactional with a producer", produce(9, "broken", topic_id, with_producer), 9)
    peer.ask("transactional id", produce(9, "broken", topic_id, with_producer, transactional_id="t"), 9)


def _whatever_offset(answer: Any) -> Any:
    """Remove offsets, so that a batch which only one broker accepts is only one difference."""
    for partition in answer["responses"][0]["partition_responses"]:
        if partition["base_offset"] >= 0:
            partition["base_offset"] = "<offset>"
    return answer


def produce_too_large(peer: Peer) -> None:
    topic_id = peer.create_topic("narrow", max_message_bytes="200")
    for version in (3, 9, 13):
        peer.ask(f"v{version}", produce(version, "narrow", topic_id, batch("a" * 300)), version)
    peer.ask("compressed small enough", produce(9, "narrow", topic_id, batch("a" * 300, codec=Codec.GZIP)), 9)
    peer.ask("too large and corrupt", produce(9, "narrow", topic_id, corrupted(batch("a" * 300))), 9)
    plain_id = peer.create_topic("wide")
    peer.ask("default limit", produce(9, "wide", plain_id, batch("a" * 1_048_600)), 9)
    segments_id = peer.create_topic("segments", segment_bytes="1048576", max_message_bytes="2000000")
    peer.ask("larger than a segment", produce(9, "segments", segments_id, batch("a" * 1_048_600)), 9)


def produce_to_compacted(peer: Peer) -> None:
    topic_id = peer.create_topic("compacted", cleanup_policy="compact")
    for version in VERSIONS:
        peer.ask(f"v{version} no key", produce(version, "compacted", topic_id, batch("a", "b", key=None)), version)
    peer.ask("key", produce(9, "compacted", topic_id, batch("a")), 9)
    peer.ask("empty key", produce(9, "compacted", topic_id, batch("a", key=b"")), 9)
    packed = batch("a", "b", key=None, codec=Codec.ZSTD)
    peer.ask("compressed without key", produce(9, "compacted", topic_id, packed), 9)


def produce_with_log_append_time(peer: Peer) -> None:
    topic_id = peer.create_topic("stamped", message_timestamp_type="LogAppendTime")
    for version in (3, 8, 9, 13):
        peer.ask(f"v{version}", produce(version, "stamped", topic_id, batch("a", at_ms=5)), version)
    peer.ask("compressed", produce(9, "stamped", topic_id, batch("a", at_ms=5, codec=Codec.LZ4)), 9)
    for what in ("of a producer", "of a producer again"):
        peer.ask(what, produce(9, "stamped", topic_id, batch("a", at_ms=5, producer=(123_456, 0, 0))), 9)
    peer.ask("marked by the client", produce(9, "stamped", topic_id, changed(batch("a"), attributes=0x08)), 9)


def produce_out_of_time(peer: Peer) -> None:
    topic_id = peer.create_topic(
        "timely", message_timestamp_before_max_ms="60000", message_timestamp_after_max_ms="60000"
    )
    for version in (3, 7, 8, 9, 13):
        late = batch("a", "b", at_ms=NOW_MS - _DAY_MS)
        peer.ask(f"v{version} before", produce(version, "timely", topic_id, late), version)
        early = batch("a", at_ms=NOW_MS + _DAY_MS)
        peer.ask(f"v{version} after", produce(version, "timely", topic_id, early), version)
    peer.ask("no timestamp", produce(9, "timely", topic_id, batch("a", at_ms=-1)), 9)
    other_id = peer.create_topic("default-times")
    peer.ask("old by default", produce(9, "default-times", other_id, batch("a", at_ms=5)), 9)
    peer.ask("two hours ahead", produce(9, "default-times", other_id, batch("a", at_ms=NOW_MS + 7_300_000)), 9)


def produce_idempotently(peer: Peer) -> None:
    topic_id = peer.create_topic("once", partitions=3)
    # A broker may have to get a block of ids first.
    init = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    producer_id = peer.until(init, 5, lambda reply: reply.error_code == 0).producer_id

    def send(what: str, epoch: int, sequence: int, *values: str, partition: int = 0, version: int = 9) -> None:
        records = batch(*values, producer=(producer_id, epoch, sequence))
        peer.ask(what, produce(version, "once", topic_id, records, partition=partition), version)

    send("first", 0, 0, "a", "b")
    send("second", 0, 2, "c")
    send("second again", 0, 2, "c")
    send("first again", 0, 0, "a", "b")
    send("part of the first", 0, 0, "a")
    send("gap", 0, 9, "d")
    send("gap in version 3", 0, 9, "d", version=3)
    for number in range(3, 8):
        send(f"sequence {number}", 0, number, "e")
    send("long ago", 0, 0, "a", "b")
    send("new epoch not at 0", 1, 8, "f")
    send("new epoch", 1, 0, "f")
    send("old epoch", 0, 8, "g")
    send("old epoch in version 3", 0, 8, "g", version=3)
    send("unknown, in the middle", 0, 5, "h", partition=1)
    send("unknown, in the middle of an epoch above 0", 3, 5, "h", partition=2)
    unknown = batch("a", producer=(987_654, 0, 0))
    peer.ask("an id that nobody was given", produce(9, "once", topic_id, unknown), 9)
    wrapping = batch("a", "b", producer=(111_222, 0, 0x7FFFFFFF))
    peer.ask("sequence at its end", produce(9, "once", topic_id, wrapping), 9)
    for what, fields in {
        "no epoch": {"producer_id": 5, "producer_epoch": -1, "base_sequence": 0},
        "no sequence": {"producer_id": 5, "producer_epoch": 0, "base_sequence": -1},
    }.items():
        peer.ask(what, produce(9, "once", topic_id, changed(batch("a"), **fields)), 9)
    two = batch("a", producer=(5, 0, 0)) + batch("b", producer=(5, 0, 1))
    peer.ask("two batches", produce(9, "once", topic_id, two), 9)


SCENARIOS: Final = (
    produce_sound_batches,
    produce_to_unknown_places,
    produce_with_acks,
    produce_broken_batches,
    produce_too_large,
    produce_to_compacted,
    produce_with_log_append_time,
    produce_out_of_time,
    produce_idempotently,
)
