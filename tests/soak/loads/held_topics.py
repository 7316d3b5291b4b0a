"""Requests that name as many topics as a broker takes, of a client whose rights take long to find out.

A function prepares its scenario in a directory, scaled by a number of at most 1, and returns what is to be measured.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.model import fetch as fetch_values
from kraft.model import produce as produce_values
from kraft.model.access import Operation
from kraft.model.principal import ANONYMOUS
from kraft.server.access import record_guards
from kraft.wire.declaration import Message
from kraft.wire.frame import SIZE_BYTES, encode_request
from kraft.wire.schema.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kraft.wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.cluster_images import ORDERS
from tests.support.server.serving_topics import SESSION, Served

Work = Callable[[], Awaitable[object]]

TOPICS: Final = 32_000
"""With one partition each, close to the elements of a request that a listener takes by default."""

NAME_LENGTH: Final = 40
PRODUCE_VERSION: Final = 12
FETCH_VERSION: Final = 12
FETCH_VERSION_OF_IDS: Final = 13
_RECORDS: Final = build_batch([Record(0, 1_000, None, b"v")])


def _names(scale: float) -> list[str]:
    return [str(at).rjust(NAME_LENGTH, "t") for at in range(int(TOPICS * scale))]


def _sent(served: Served, *frames: memoryview) -> Work:
    """Return work that sends each of the frames once the one before is answered."""

    async def work() -> None:
        requests = served.connection()
        for frame in frames:
            response = requests.begin(frame)
            assert response if isinstance(response, list) else await response, "each is answered"

    return work


def _frame(request: Message, version: int) -> memoryview:
    return memoryview(b"".join(encode_request(request, version, 1, "many")))[SIZE_BYTES:]


# --- produce ---------------------------------------------------------------------------------------------------------


def _produce(names: Sequence[str]) -> memoryview:
    entries = (PartitionProduceData(index=0, records=_RECORDS),)
    topics = tuple(TopicProduceData(name=each, partition_data=entries) for each in names)
    return _frame(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), PRODUCE_VERSION)


def produce_topics(directory: Path, scale: float) -> Work:
    """All of the topics are one that exists: each batch is appended."""
    return _sent(Served(directory, [Operation.WRITE]), _produce(["orders"] * int(TOPICS * scale)))


def produce_unknown_topics(directory: Path, scale: float) -> Work:
    """None of the topics exists."""
    return _sent(Served(directory, [Operation.WRITE]), _produce(_names(scale)))


def produce_refused_topics(directory: Path, scale: float) -> Work:
    """The client may write to none of the topics."""
    return _sent(Served(directory, [Operation.READ]), _produce(_names(scale)))


def produce_topics_by_grpc(directory: Path, scale: float) -> Work:
    """The same requests, as the GRPC listener has them guarded and carried out."""
    asked = [
        produce_values.ProduceRequest(
            request_id=0,
            acks=1,
            timeout_ms=30_000,
            partitions=[produce_values.ProducePartition(topic=each, partition=0, records=_RECORDS) for each in names],
        )
        for names in (["orders"] * int(TOPICS * scale), _names(scale))
    ]
    by_rights = [Served(directory / each.name, [each]) for each in (Operation.WRITE, Operation.READ)]

    async def work() -> None:
        for served in by_rights:
            for request in asked:
                asker = served.askers.of(ANONYMOUS, "127.0.0.1")
                answer = await record_guards.produce(asker, request, served.produce.handle)
                assert answer is not None

    return work


# --- fetch -----------------------------------------------------------------------------------------------------------


def _topic(name: str = "", topic_id: UUID = ORDERS) -> FetchTopic:
    wanted = (FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000),)
    return FetchTopic(topic=name, topic_id=topic_id, partitions=wanted)


def _fetch(topics: Sequence[FetchTopic], version: int, **session: Any) -> memoryview:
    return _frame(FetchRequest(max_wait_ms=0, min_bytes=1, topics=tuple(topics), **session), version)


def fetch_topics(directory: Path, scale: float) -> Work:
    """None of the topics exists."""
    return _sent(Served(directory, [Operation.READ]), _fetch(list(map(_topic, _names(scale))), FETCH_VERSION))


def fetch_refused_topics(directory: Path, scale: float) -> Work:
    """The client may read none of the topics."""
    return _sent(Served(directory, [Operation.WRITE]), _fetch(list(map(_topic, _names(scale))), FETCH_VERSION))


def fetch_topic_ids(directory: Path, scale: float) -> Work:
    """No topic has any of the ids."""
    topics = [_topic(topic_id=UUID(int=at + 1_000)) for at in range(int(TOPICS * scale))]
    return _sent(Served(directory, [Operation.READ]), _fetch(topics, FETCH_VERSION_OF_IDS))


def fetch_session(directory: Path, scale: float) -> Work:
    """A session begins with as many partitions as it may have, is continued, and forgets all but one of them."""
    topics = list(map(_topic, _names(scale)))
    forgotten = tuple(ForgottenTopic(topic=each.topic, partitions=(0,)) for each in topics[1:])
    frames = [
        _fetch(topics, FETCH_VERSION, session_id=0, session_epoch=0),
        _fetch([], FETCH_VERSION, session_id=SESSION, session_epoch=1),
        _fetch([], FETCH_VERSION, session_id=SESSION, session_epoch=2, forgotten_topics_data=forgotten),
    ]
    return _sent(Served(directory, [Operation.READ]), *frames)


def fetch_topics_by_grpc(directory: Path, scale: float) -> Work:
    """The same requests, as the GRPC listener has them guarded and carried out."""
    wanted = [
        fetch_values.FetchPartition(topic=each, partition=0, fetch_offset=0, partition_max_bytes=1_000)
        for each in _names(scale)
    ]
    request = fetch_values.FetchRequest(request_id=0, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, partitions=wanted)
    by_rights = [Served(directory / each.name, [each]) for each in (Operation.READ, Operation.WRITE)]

    async def work() -> None:
        for served in by_rights:
            asker = served.askers.of(ANONYMOUS, "127.0.0.1")
            answer = await record_guards.fetch(asker, request, served.fetch.handle)
            assert len(answer.partitions) == len(wanted)

    return work
