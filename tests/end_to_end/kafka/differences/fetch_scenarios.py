"""Fetch: places, limits, epochs and sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from kraft.log.format.compression import Codec
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.end_to_end.kafka.differences.batches import batch
from tests.end_to_end.kafka.differences.peer import Peer
from tests.end_to_end.kafka.differences.produce_scenarios import UNKNOWN_ID, produce

VERSIONS: Final = range(4, 19)
_BY_ID_FROM: Final = 13
_SESSIONS_FROM: Final = 7
_EPOCHS_FROM: Final = 9
_DIVERGENCE_FROM: Final = 12
_ALL: Final = 1 << 20


def wanted(partition: int = 0, offset: int = 0, bytes_max: int = _ALL, epoch: int = -1, last_epoch: int = -1) -> Any:
    return FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=bytes_max,
        current_leader_epoch=epoch,
        last_fetched_epoch=last_epoch,
    )


def fetch(
    version: int,
    topic: str,
    topic_id: UUID,
    partitions: Sequence[FetchPartition],
    *,
    bytes_max: int = _ALL,
    wait_ms: int = 0,
    min_bytes: int = 1,
    session: tuple[int, int] = (0, -1),
    isolation: int = 0,
    forgotten: Sequence[int] = (),
) -> FetchRequest:
    name, number = ("", topic_id) if version >= _BY_ID_FROM else (topic, ZERO_UUID)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=bytes_max,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=(FetchTopic(topic=name, topic_id=number, partitions=tuple(partitions)),) if partitions else (),
        forgotten_topics_data=(
            (ForgottenTopic(topic=name, topic_id=number, partitions=tuple(forgotten)),) if forgotten else ()
        ),
    )


def _filled(peer: Peer, topic: str, *batches: bytes, partitions: int = 1, **configs: str) -> UUID:
    topic_id = peer.create_topic(topic, partitions, **configs)
    for each in batches:
        answer = peer.call(produce(9, topic, topic_id, *[each] * partitions), 9)
        assert all(one.error_code == 0 for one in answer.responses[0].partition_responses), answer
    return topic_id


def fetch_what_is_there(peer: Peer) -> None:
    topic_id = _filled(peer, "there", batch("a", "b"), batch("c", codec=Codec.LZ4), batch("d", key=None))
    for version in VERSIONS:
        for offset in (0, 1, 2, 4):
            peer.ask(f"v{version} from {offset}", fetch(version, "there", topic_id, [wanted(offset=offset)]), version)
    for isolation in (0, 1):
        request = fetch(12, "there", topic_id, [wanted()], isolation=isolation)
        peer.ask(f"isolation {isolation}", request, 12)
    peer.ask("isolation 2", fetch(12, "there", topic_id, [wanted()], isolation=2), 12)
    peer.ask("at the end, waiting", fetch(12, "there", topic_id, [wanted(offset=4)], wait_ms=50), 12)
    peer.ask("negative wait", fetch(12, "there", topic_id, [wanted(offset=4)], wait_ms=-1), 12)
    peer.ask("no topics", fetch(12, "there", topic_id, []), 12)
    peer.ask("more than there is", fetch(12, "there", topic_id, [wanted()], wait_ms=50, min_bytes=_ALL), 12)
    peer.ask("the same partition twice", fetch(12, "there", topic_id, [wanted(), wanted(offset=2)]), 12)


def fetch_out_of_range(peer: Peer) -> None:
    topic_id = _filled(peer, "bounded", batch("a", "b"))
    for version in VERSIONS:
        for offset in (3, 1_000, -1, -2):
            request = fetch(version, "bounded", topic_id, [wanted(offset=offset)])
            peer.ask(f"v{version} from {offset}", request, version)
        peer.ask(f"v{version} partition", fetch(version, "bounded", topic_id, [wanted(partition=7)]), version)
        peer.ask(f"v{version} topic", fetch(version, "nowhere", UNKNOWN_ID, [wanted()]), version)
    peer.ask("no id", fetch(13, "", ZERO_UUID, [wanted()]), 13)
    peer.ask("no name", fetch(12, "", ZERO_UUID, [wanted()]), 12)
    request = fetch(12, "bounded", topic_id, [wanted(partition=7), wanted()])
    peer.ask("one of two", request, 12, keep=_by_partition)
    peer.ask("error does not wait", fetch(12, "bounded", topic_id, [wanted(offset=9)], wait_ms=60_000), 12)


def _by_partition(answer: Any) -> Any:
    answer["responses"][0]["partitions"].sort(key=lambda each: int(each["partition_index"]))
    return answer


def fetch_within_limits(peer: Peer) -> None:
    """A consumer gets on, however small its limits are (KIP-74)."""
    topic_id = _filled(peer, "limits", batch("a" * 500), batch("b" * 500), batch("c" * 500), partitions=2)
    for version in (4, 11, 12, 13, 18):
        for limit in (0, 1, 100, 600, 1_200, -1):
            both = [wanted(bytes_max=limit), wanted(partition=1, bytes_max=limit)]
            peer.ask(f"v{version} {limit} a partition", fetch(version, "limits", topic_id, both), version)
            both = [wanted(), wanted(partition=1)]
            request = fetch(version, "limits", topic_id, both, bytes_max=limit)
            peer.ask(f"v{version} {limit} in all", request, version)


def fetch_with_epochs(peer: Peer) -> None:
    topic_id = _filled(peer, "epochs", batch("a", "b"))
    for version in range(_EPOCHS_FROM, 19):
        for epoch in (0, 1, -1, -2):
            request = fetch(version, "epochs", topic_id, [wanted(epoch=epoch)])
            peer.ask(f"v{version} epoch {epoch}", request, version)
    for version in range(_DIVERGENCE_FROM, 19):
        for last_epoch in (0, 1, 5):
            request = fetch(version, "epochs", topic_id, [wanted(offset=1, last_epoch=last_epoch)])
            peer.ask(f"v{version} last fetched {last_epoch}", request, version)
    request = fetch(12, "epochs", topic_id, [wanted(offset=9, last_epoch=0)])
    peer.ask("beyond the end of its epoch", request, 12)


def fetch_in_sessions(peer: Peer) -> None:
    topic_id = _filled(peer, "sessions", batch("a"), partitions=2)
    for version in (_SESSIONS_FROM, 11, 12, 13, 18):
        _fetch_in_sessions(peer, topic_id, version)
    session_id = peer.call(fetch(12, "sessions", topic_id, [wanted()], session=(0, 0)), 12).session_id
    peer.ask("names, then ids", fetch(13, "", topic_id, [wanted()], session=(session_id, 1)), 13)
    peer.ask("unknown id in a session", fetch(13, "", UNKNOWN_ID, [wanted()], session=(0, 0)), 13)
    peer.ask("empty session", fetch(12, "sessions", topic_id, [], session=(0, 0)), 12)


def _fetch_in_sessions(peer: Peer, topic_id: UUID, version: int) -> None:
    def ask(what: str, session: tuple[int, int], *partitions: Any, forgotten: Sequence[int] = ()) -> Any:
        request = fetch(version, "sessions", topic_id, partitions, session=session, forgotten=forgotten)
        return peer.ask(f"v{version} {what}", request, version)

    session_id = ask("new", (0, 0), wanted(), wanted(partition=1)).session_id
    ask("the same again", (session_id, 1), wanted(), wanted(partition=1))
    ask("both at their ends", (session_id, 2), wanted(offset=9), wanted(partition=1, offset=1))
    ask("nothing new", (session_id, 3))
    ask("one moves on", (session_id, 4), wanted(offset=1))
    ask("one is forgotten", (session_id, 5), forgotten=[1])
    ask("an unknown one is forgotten", (session_id, 6), forgotten=[5])
    ask("an unknown one is added", (session_id, 7), wanted(partition=9))
    ask("still unknown", (session_id, 8))
    ask("wrong epoch", (session_id, 77))
    ask("right epoch after that", (session_id, 9))
    ask("unknown session", (session_id ^ 1, 1), wanted())
    ask("epoch without session", (0, 3), wanted())
    ask("the end", (session_id, -1), wanted())
    ask("after the end", (session_id, 10))
    ask("none asked for", (0, -1), wanted())
    ask("nobody's end", (123, -1), wanted())


def fetch_by_old_clients(peer: Peer) -> None:
    """Zstandard came with version 10."""
    topic_id = _filled(peer, "zstd", batch("a", codec=Codec.ZSTD))
    for version in (4, 9, 10, 12):
        peer.ask(f"v{version}", fetch(version, "zstd", topic_id, [wanted()]), version)


SCENARIOS: Final = (
    fetch_what_is_there,
    fetch_out_of_range,
    fetch_within_limits,
    fetch_with_epochs,
    fetch_in_sessions,
    fetch_by_old_clients,
)
