from __future__ import annotations

from itertools import count
from uuid import UUID

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.fetch_sessions import UNUSED_MS_MAX, FetchKey, FetchSession, FetchSessions
from kraft.wire.schema.fetch import FetchPartition, PartitionData

NO_ID = UUID(int=0)


def key(partition: int) -> FetchKey:
    return FetchKey("orders", NO_ID, partition)


def wanted(partition: int, fetch_offset: int = 0) -> tuple[FetchKey, FetchPartition]:
    return key(partition), FetchPartition(partition=partition, fetch_offset=fetch_offset, partition_max_bytes=1_000)


def data(
    partition: int, records: bytes = b"", high_watermark: int = 5, error: int = 0
) -> tuple[FetchKey, PartitionData]:
    return key(partition), PartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=0,
        aborted_transactions=None,
        records=records,
    )


def sessions(sessions_max: int = 10) -> FetchSessions:
    ids = count(1)
    return FetchSessions(lambda: next(ids), sessions_max)


def begun(*partitions: int) -> FetchSession:
    session = sessions().begin(uses_topic_ids=False, now_ms=0)
    assert session is not None
    session.change(map(wanted, partitions), ())
    return session


def named(session: FetchSession, *found: tuple[FetchKey, PartitionData]) -> list[int]:
    return [where.partition for where, _ in session.news(found)]


def refused(kept: FetchSessions, session_id: int, epoch: int, uses_topic_ids: bool = False) -> ErrorCode:
    with pytest.raises(Refusal) as refusal:
        kept.resume(session_id, epoch, uses_topic_ids, now_ms=0)
    return refusal.value.error_code


def test_the_first_answer_names_everything_and_later_ones_what_changed() -> None:
    session = begun(0, 1, 2)
    assert named(session, data(0), data(1), data(2)) == [0, 1, 2]
    assert named(session, data(0), data(1), data(2)) == []
    assert named(session, data(0), data(1, high_watermark=6), data(2, b"batch")) == [1, 2]


def test_an_error_is_sent_each_time_and_so_is_its_end() -> None:
    session = begun(0)
    assert named(session, data(0)) == [0]
    for _ in range(2):
        assert named(session, data(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)) == [0]
    assert named(session, data(0)) == [0]
    assert named(session, data(0)) == []


def test_what_gave_records_is_read_last_the_next_time() -> None:
    session = begun(0, 1, 2)
    session.news([data(0, b"batch"), data(1), data(2)])
    assert [where.partition for where, _ in session.wanted] == [1, 2, 0]


def test_a_request_names_only_what_is_new_moved_or_no_longer_wanted() -> None:
    session = begun(0, 1)
    session.change([wanted(1, fetch_offset=7), wanted(2)], [key(0)])
    assert session.wanted == [wanted(1, fetch_offset=7), wanted(2)]


def test_a_lost_or_repeated_request_is_noticed() -> None:
    kept = sessions()
    session = kept.begin(uses_topic_ids=False, now_ms=0)
    assert session is not None
    assert kept.resume(session.session_id, 1, uses_topic_ids=False, now_ms=0) is session
    assert refused(kept, session.session_id, 1) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert refused(kept, session.session_id, 3) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert kept.resume(session.session_id, 2, uses_topic_ids=False, now_ms=0) is session


def test_epochs_wrap_around_to_one() -> None:
    kept = sessions()
    session = kept.begin(uses_topic_ids=False, now_ms=0)
    assert session is not None
    session.next_epoch = 0x7FFFFFFF
    kept.resume(session.session_id, 0x7FFFFFFF, uses_topic_ids=False, now_ms=0)
    assert session.next_epoch == 1


def test_a_session_that_is_not_there_or_names_topics_otherwise_is_refused() -> None:
    kept = sessions()
    session = kept.begin(uses_topic_ids=False, now_ms=0)
    assert session is not None
    assert refused(kept, session.session_id, 1, uses_topic_ids=True) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    kept.end(session.session_id)
    assert refused(kept, session.session_id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_only_a_long_unused_session_makes_room() -> None:
    kept = sessions(sessions_max=2)
    first, second = kept.begin(False, now_ms=0), kept.begin(False, now_ms=0)
    assert first is not None
    assert second is not None
    assert kept.begin(False, now_ms=UNUSED_MS_MAX - 1) is None
    kept.resume(first.session_id, 1, uses_topic_ids=False, now_ms=UNUSED_MS_MAX)
    assert kept.begin(False, now_ms=UNUSED_MS_MAX) is not None
    assert refused(kept, second.session_id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(kept) == 2
    assert kept.begin(False, now_ms=2 * UNUSED_MS_MAX - 1) is None, "the first was used lately"


def test_no_two_sessions_have_one_id() -> None:
    ids = iter([7, 7, 8])
    kept = FetchSessions(lambda: next(ids))
    first, second = kept.begin(False, now_ms=0), kept.begin(False, now_ms=0)
    assert first is not None
    assert second is not None
    assert (first.session_id, second.session_id) == (7, 8)
