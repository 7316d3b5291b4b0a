from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicPartition
from kraft.server.kafka_listener.apis.fetch import FetchApi
from kraft.server.kafka_listener.fetch_sessions import FetchSessions, SharedFetches
from kraft.server.kafka_listener.large_requests import LARGE_FROM_BYTES
from kraft.server.kafka_listener.requests import ConnectionContext, FetchQuota
from kraft.server.loop.budget import Budget
from kraft.server.loop.unread_responses import UnreadResponses
from kraft.server.replica.partition import Partition
from kraft.wire.schema.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from tests.support.log.transactional_log import COORDINATOR, VERIFIED, transactional
from tests.support.server.fetch_handlers import fetch_handler
from tests.support.server.replicas import Broker, append_to, batch, follow, lead, settle, values_of
from tests.support.virtual_time import run_virtually
from tests.unit.server.kafka_listener.apis.listener import (
    answered,
    called,
    id_of,
    leaders,
    partitions_of,
    topic_named,
    versions_of,
)

VERSIONS = versions_of(FetchRequest)
SESSION_VERSIONS = [version for version in VERSIONS if version >= 7]
FULL = -1


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path, partitions=partitions_of())


def committed(broker: Broker, number: int, *values: str) -> Partition:
    """A partition that this broker leads alone, with one batch for each value, all committed."""
    partition = broker.open(TopicPartition("orders", number))
    lead(partition, replicas=(1,))
    append(broker, partition, *values)
    return partition


def append(broker: Broker, partition: Partition, *values: str) -> None:
    for value in values:
        append_to(partition, batch(value), 1)
    broker.sync()


class Listener:
    """Serves fetches of one broker's partitions."""

    def __init__(
        self, broker: Broker, *, sessions_max: int = 10, partitions_max: int = 100, waiting_max: int = 1_000
    ) -> None:
        self._numbers: Iterator[int] = count(501)
        self.sessions = FetchSessions(lambda: next(self._numbers), sessions_max, partitions_max)
        self.waiting = Budget(waiting_max)
        self.api = FetchApi(
            fetch_handler(broker.partitions).begin,
            leaders(),
            SharedFetches(self.sessions, self.waiting, lambda: broker.now_ms),
        )

    def fetch(self, version: int, *topics: FetchTopic, **fields: Any) -> FetchResponse:
        response: FetchResponse = run_virtually(self.answer(version, *topics, **fields))
        return response

    async def answer(self, version: int, *topics: FetchTopic, **fields: Any) -> FetchResponse:
        asked: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "topics": topics}
        request = FetchRequest(**asked | fields)
        return await answered(self.api, request, version, FetchResponse)


def asking(
    version: int, name: str, *partitions: tuple[int, int], bytes_max: int = 1 << 20, epoch: int = -1
) -> FetchTopic:
    """Numbers of partitions and offsets in them."""
    wanted = tuple(
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=bytes_max, current_leader_epoch=epoch)
        for number, offset in partitions
    )
    named: FetchTopic = topic_named(FetchTopic, version >= 13, name, id_of(name), "topic", partitions=wanted)
    return named


def forgetting(version: int, name: str, *partitions: int) -> tuple[ForgottenTopic]:
    named: ForgottenTopic = topic_named(
        ForgottenTopic, version >= 13, name, id_of(name), "topic", partitions=partitions
    )
    return (named,)


def found(response: FetchResponse) -> list[PartitionData]:
    return [data for topic in response.responses for data in topic.partitions]


def values(response: FetchResponse) -> dict[int, list[str]]:
    return {data.partition_index: values_of(bytes(data.records or b"")) for data in found(response)}


def codes(response: FetchResponse) -> list[int]:
    return [data.error_code for data in found(response)]


# --- records -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_committed_is_given_in_every_version(broker: Broker, version: int) -> None:
    committed(broker, 0, "a", "b")
    response = Listener(broker).fetch(version, asking(version, "orders", (0, 1)))
    (topic,) = response.responses
    assert (topic.topic_id if version >= 13 else topic.topic) == (id_of("orders") if version >= 13 else "orders")
    (data,) = topic.partitions
    assert values(response) == {0: ["b"]}
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 2, 2)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    assert (data.preferred_read_replica, data.current_leader) == (-1, LeaderIdAndEpoch())
    assert (response.error_code, response.session_id, response.throttle_time_ms) == (0, 0, 0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("isolation_level", "aborted"), [(0, None), (1, ())])
def test_aborted_transactions_are_empty_under_read_committed(
    broker: Broker, version: int, isolation_level: int, aborted: object
) -> None:
    committed(broker, 0, "a")
    response = Listener(broker).fetch(version, asking(version, "orders", (0, 0)), isolation_level=isolation_level)
    (data,) = found(response)
    assert (data.aborted_transactions, values(response)) == (aborted, {0: ["a"]})


@pytest.mark.parametrize("version", VERSIONS)
def test_aborted_transactions_and_the_last_stable_offset_are_given_in_every_version(
    broker: Broker, version: int
) -> None:
    partition = committed(broker, 0)
    abort = EndTransactionMarker(type=MarkerType.ABORT, coordinator_epoch=0)
    for records, origin in (
        (transactional(7, 0, "a"), VERIFIED),
        (build_marker(abort, 7, 0, 1_000), COORDINATOR),
        (transactional(8, 0, "b"), VERIFIED),
    ):
        append_to(partition, records, 1, origin)
    broker.sync()
    listener = Listener(broker)
    (data,) = found(listener.fetch(version, asking(version, "orders", (0, 0)), isolation_level=1))
    assert (data.high_watermark, data.last_stable_offset) == (3, 2)
    assert data.aborted_transactions == (AbortedTransaction(producer_id=7, first_offset=0),)
    (data,) = found(listener.fetch(version, asking(version, "orders", (0, 0))))
    assert (data.last_stable_offset, data.aborted_transactions) == (2, None)
    assert values_of(bytes(data.records or b"")) == ["a", "b"]


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_are_answered_in_the_requests_order(broker: Broker, version: int) -> None:
    committed(broker, 0, "a")
    committed(broker, 1, "b")
    response = Listener(broker).fetch(
        version,
        asking(version, "payments", (4, 0)),
        asking(version, "orders", (1, 0), (9, 0), (0, 0)),
        max_wait_ms=60_000,
        min_bytes=1 << 20,
    )
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(data.partition_index, data.error_code) for data in found(response)] == [
        (4, unknown),
        (1, 0),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, 0),
    ]
    assert values(response) == {4: [], 1: ["b"], 9: [], 0: ["a"]}
    assert len(response.responses) == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_of_a_partition_are_answered(broker: Broker, version: int) -> None:
    committed(broker, 0, "a")
    assert codes(Listener(broker).fetch(version, asking(version, "orders", (0, 7)))) == [ErrorCode.OFFSET_OUT_OF_RANGE]
    fenced = Listener(broker).fetch(version, asking(version, "orders", (0, 0), epoch=5))
    # Older consumers send no epochs.
    assert codes(fenced) == [ErrorCode.UNKNOWN_LEADER_EPOCH if version >= 9 else ErrorCode.NONE]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_that_asked_the_wrong_broker_learns_the_leader_and_its_address(broker: Broker, version: int) -> None:
    follow(broker.open(TopicPartition("orders", 2)))
    response = Listener(broker).fetch(version, asking(version, "orders", (2, 0)))
    (data,) = found(response)
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    expected = LeaderIdAndEpoch(leader_id=2, leader_epoch=0) if version >= 12 else LeaderIdAndEpoch()
    assert data.current_leader == expected
    assert [(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints] == (
        [(2, "localhost", 9096, None)] if version >= 16 else []
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_above_every_limit_is_given_alone(broker: Broker, version: int) -> None:
    """KIP-74: a consumer makes progress, however few bytes it asks for."""
    committed(broker, 0, "a" * 1_000, "b")
    committed(broker, 1, "c")
    wanted = asking(version, "orders", (0, 0), (1, 0), bytes_max=1)
    assert values(Listener(broker).fetch(version, wanted, max_bytes=1)) == {0: ["a" * 1_000], 1: []}


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_consumer_waits_for_what_is_not_there_yet(broker: Broker, version: int) -> None:
    partition = committed(broker, 0, "a")
    wanted = asking(version, "orders", (0, 1))
    answer = asyncio.ensure_future(Listener(broker).answer(version, wanted, max_wait_ms=60_000))
    await settle()
    assert not answer.done()
    append(broker, partition, "b")
    assert values(await answer) == {0: ["b"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_follower_is_refused_at_this_listener(broker: Broker, version: int) -> None:
    committed(broker, 0, "a")
    says_so = {"replica_id": 2} if version < 15 else {"replica_state": ReplicaState(replica_id=2, replica_epoch=1)}
    response = Listener(broker).fetch(version, asking(version, "orders", (0, 0)), **says_so)
    assert response.responses == ()
    assert response.error_code == (ErrorCode.INVALID_REQUEST if version >= 7 else 0)


# --- sessions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_a_session_gets_only_the_partitions_that_changed(broker: Broker, version: int) -> None:
    first, second = committed(broker, 0, "a"), committed(broker, 1, "b")
    listener = Listener(broker)
    begun = listener.fetch(version, asking(version, "orders", (0, 0), (1, 0)), session_epoch=0)
    assert (begun.session_id, values(begun)) == (501, {0: ["a"], 1: ["b"]})
    moved = listener.fetch(version, asking(version, "orders", (0, 1), (1, 1)), session_id=501, session_epoch=1)
    assert (moved.session_id, moved.responses) == (501, ())
    append(broker, second, "c")
    news = listener.fetch(version, session_id=501, session_epoch=2)
    assert (news.session_id, values(news)) == (501, {1: ["c"]})
    (topic,) = news.responses
    assert (topic.topic_id if version >= 13 else topic.topic) == (id_of("orders") if version >= 13 else "orders")
    append(broker, first, "d")
    changed = asking(version, "orders", (1, 2))
    assert values(listener.fetch(version, changed, session_id=501, session_epoch=3)) == {0: ["d"]}


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_what_a_session_forgets_is_not_read_any_more(broker: Broker, version: int) -> None:
    first, _ = committed(broker, 0), committed(broker, 1)
    listener = Listener(broker)
    listener.fetch(version, asking(version, "orders", (0, 0), (1, 0)), session_epoch=0)
    append(broker, first, "a")
    forgotten = forgetting(version, "orders", 0)
    response = listener.fetch(version, session_id=501, session_epoch=1, forgotten_topics_data=forgotten)
    assert (response.error_code, response.responses) == (0, ())


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_a_session_that_is_unknown_or_out_of_step_is_refused(broker: Broker, version: int) -> None:
    committed(broker, 0)
    listener = Listener(broker)
    assert listener.fetch(version, session_id=9, session_epoch=1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    listener.fetch(version, asking(version, "orders", (0, 0)), session_epoch=0)
    ahead = listener.fetch(version, session_id=501, session_epoch=2)
    assert (ahead.error_code, ahead.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ())
    assert listener.fetch(version, session_id=501, session_epoch=1).error_code == 0


def test_a_session_by_names_does_not_go_on_by_ids(broker: Broker) -> None:
    committed(broker, 0)
    listener = Listener(broker)
    listener.fetch(12, asking(12, "orders", (0, 0)), session_epoch=0)
    assert listener.fetch(13, session_id=501, session_epoch=1).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_a_session_ends_when_its_client_says_so(broker: Broker, version: int) -> None:
    committed(broker, 0, "a")
    listener = Listener(broker)
    listener.fetch(version, asking(version, "orders", (0, 0)), session_epoch=0)
    last = listener.fetch(version, asking(version, "orders", (0, 0)), session_id=501, session_epoch=FULL)
    assert (last.session_id, values(last), len(listener.sessions)) == (0, {0: ["a"]}, 0)
    gone = listener.fetch(version, session_id=501, session_epoch=1)
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_a_new_session_replaces_the_old_one(broker: Broker, version: int) -> None:
    committed(broker, 0)
    listener = Listener(broker)
    listener.fetch(version, asking(version, "orders", (0, 0)), session_epoch=0)
    again = listener.fetch(version, asking(version, "orders", (0, 0)), session_id=501, session_epoch=0)
    assert (again.session_id, len(listener.sessions)) == (502, 1)


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_without_room_for_a_session_everything_is_answered_as_before(broker: Broker, version: int) -> None:
    committed(broker, 0, "a")
    listener = Listener(broker, sessions_max=1)
    listener.fetch(version, asking(version, "orders", (0, 0)), session_epoch=0)
    second = listener.fetch(version, asking(version, "orders", (0, 0)), session_epoch=0)
    assert (second.session_id, values(second)) == (0, {0: ["a"]})


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_an_error_is_sent_each_time_and_the_recovery_once(broker: Broker, version: int) -> None:
    listener = Listener(broker)
    begun = listener.fetch(version, asking(version, "orders", (0, 0)), session_epoch=0)
    assert codes(begun) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert codes(listener.fetch(version, session_id=501, session_epoch=1)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    committed(broker, 0)
    assert codes(listener.fetch(version, session_id=501, session_epoch=2)) == [ErrorCode.NONE]
    assert codes(listener.fetch(version, session_id=501, session_epoch=3)) == []


@pytest.mark.parametrize("version", [13, 18])
def test_an_unknown_topic_id_in_a_session_is_answered(broker: Broker, version: int) -> None:
    committed(broker, 0)
    listener = Listener(broker)
    begun = listener.fetch(
        version, asking(version, "orders", (0, 0)), asking(version, "payments", (0, 0)), session_epoch=0
    )
    assert codes(begun) == [0, ErrorCode.UNKNOWN_TOPIC_ID]
    assert codes(listener.fetch(version, session_id=501, session_epoch=1)) == [ErrorCode.UNKNOWN_TOPIC_ID]


async def test_an_unknown_topic_id_is_answered_at_once_among_partitions_that_are_known(broker: Broker) -> None:
    committed(broker, 0, "a")
    committed(broker, 1, "b")
    loop = asyncio.get_running_loop()
    began = loop.time()
    response = await Listener(broker).answer(
        13,
        asking(13, "orders", (0, 1)),
        asking(13, "payments", (0, 0)),
        asking(13, "orders", (1, 0)),
        max_wait_ms=60_000,
        min_bytes=1 << 20,
    )
    assert loop.time() == began
    assert codes(response) == [0, ErrorCode.UNKNOWN_TOPIC_ID, 0]
    assert [data.partition_index for data in found(response) if data.records] == [1]


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_sessions_with_too_many_partitions_end(broker: Broker, version: int) -> None:
    committed(broker, 0, "a")
    listener = Listener(broker, partitions_max=2)
    too_many = asking(version, "orders", (0, 0), (1, 0), (2, 0))
    refused = listener.fetch(version, too_many, session_epoch=0)
    assert (refused.session_id, refused.error_code, values(refused)[0]) == (0, 0, ["a"])
    listener.fetch(version, asking(version, "orders", (0, 0), (1, 0)), session_epoch=0)
    grown = listener.fetch(version, asking(version, "orders", (2, 0)), session_id=502, session_epoch=1)
    assert (grown.error_code, len(listener.sessions)) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    again = listener.fetch(version, asking(version, "orders", (0, 0), (1, 0)), session_epoch=0)
    assert again.session_id == 503, "what the ended ones had is free again"


# --- bounds ------------------------------------------------------------------------------------------------------


def sizes(response: FetchResponse) -> list[int]:
    return [len(data.records or b"") // 20_000 for data in found(response)]


def counting(broker: Broker, bytes_max: int) -> tuple[UnreadResponses, Callable[..., Awaitable[FetchResponse]]]:
    """Return a bound on unread responses and a function that fetches under it; "orders" has three batches of 20 KB."""
    committed(broker, 0, *(letter * 20_000 for letter in "abc"))
    unread = UnreadResponses(bytes_max)
    listener, call = Listener(broker), ConnectionContext(version=12, client_id="", peer="", unread=unread)

    async def fetch(offset: int = 0, max_wait_ms: int = 0) -> FetchResponse:
        topics = (asking(12, "orders", (0, offset)),)
        request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics)
        return await called(listener.api, request, call, FetchResponse)

    return unread, fetch


@pytest.mark.real_time
async def test_answers_are_no_larger_than_there_is_room_for(broker: Broker) -> None:
    """Responses to concurrent fetches count too, before the first is written."""
    unread, fetch = counting(broker, 110_000)
    at_once = await asyncio.gather(*(fetch() for _ in range(4)))
    # The last fetch that finds any room gets a whole batch; without room, there are no records and no error.
    assert [sizes(each) for each in at_once] == [[3], [2], [1], [0]]
    assert [codes(each) for each in at_once] == [[0]] * 4
    # The response is written in the next turn of the loop.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert unread.budget.held == 0
    assert sizes(await fetch()) == [3]


async def test_an_answer_that_has_no_room_waits_for_it_as_long_as_its_client_does(broker: Broker) -> None:
    loop = asyncio.get_running_loop()
    unread, fetch = counting(broker, 110_000)
    unread.note("who does not read", 110_000)
    began = loop.time()
    assert sizes(await fetch(max_wait_ms=5_000)) == [0]
    assert loop.time() - began == pytest.approx(5)
    waiting = [asyncio.ensure_future(fetch(max_wait_ms=5_000)) for _ in range(4)]
    await settle()
    unread.note("who does not read", 0)
    assert [sizes(await each) for each in waiting] == [[3], [2], [1], [3]], "in their order, the last one later"
    assert loop.time() - began < 5.1


async def test_a_small_answer_needs_no_room(broker: Broker) -> None:
    """A consumer at the end of its partition is not affected by those that read nothing."""
    unread, fetch = counting(broker, 110_000)
    partition = broker.partitions.by_name("orders", 0)
    unread.note("who does not read", 200_000)
    began = asyncio.get_running_loop().time()
    waiting = asyncio.ensure_future(fetch(offset=3, max_wait_ms=60_000))
    await settle()
    append(broker, partition, "small")
    assert values(await waiting) == {0: ["small"]}
    assert values(await fetch(offset=3)) == {0: ["small"]}

    assert asyncio.get_running_loop().time() - began < 1


async def test_fetches_wait_only_briefly_when_too_many_partitions_wait(broker: Broker) -> None:
    committed(broker, 0)
    listener, loop = Listener(broker, waiting_max=3), asyncio.get_running_loop()
    began = loop.time()
    first = asyncio.ensure_future(listener.answer(12, asking(12, "orders", (0, 0), (0, 0)), max_wait_ms=60_000))
    await settle()
    await listener.answer(12, asking(12, "orders", (0, 0), (0, 0)), max_wait_ms=60_000)
    assert loop.time() - began == pytest.approx(0.1)
    await first
    assert loop.time() - began == pytest.approx(60)
    await listener.answer(12, asking(12, "orders", (0, 0), (0, 0)), max_wait_ms=5_000)
    assert loop.time() - began == pytest.approx(65)
    assert listener.waiting.held == 0


async def test_a_large_fetch_waits_only_briefly_because_others_wait_for_its_turn(broker: Broker) -> None:
    committed(broker, 0)
    loop = asyncio.get_running_loop()
    for partitions, waited_s in ((1, 60), (LARGE_FROM_BYTES // 16, 0.5)):
        began = loop.time()
        await Listener(broker).answer(12, asking(12, "orders", *[(0, 0)] * partitions), max_wait_ms=60_000)
        assert loop.time() - began == pytest.approx(waited_s)


def over_quota(wait_ms: int, bytes_max: int | None = None) -> ConnectionContext:
    return ConnectionContext(version=SESSION_VERSIONS[-1], fetch_quota=FetchQuota(bytes_max, wait_ms))


def fetched(listener: Listener, call: ConnectionContext, *topics: FetchTopic, **fields: Any) -> FetchResponse:
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics, **fields)
    return run_virtually(called(listener.api, request, call, FetchResponse))


def test_a_client_over_its_quota_gets_nothing_and_its_session_goes_on(broker: Broker) -> None:
    committed(broker, 0, "a")
    listener, version = Listener(broker), SESSION_VERSIONS[-1]
    full = asking(version, "orders", (0, 0))
    # A session does not begin with a response in which its partitions are missing.
    assert fetched(listener, over_quota(7), full, session_epoch=0) == FetchResponse(responses=())
    begun = fetched(listener, over_quota(0), full, session_epoch=0)
    assert values(begun) == {0: ["a"]}
    waits = fetched(listener, over_quota(7), session_id=begun.session_id, session_epoch=1)
    assert (waits.session_id, waits.responses) == (begun.session_id, ())
    assert values(fetched(listener, over_quota(0), session_id=begun.session_id, session_epoch=2)) == {0: ["a"]}


def test_a_response_is_no_larger_than_the_quota_of_a_second(broker: Broker) -> None:
    committed(broker, 0, *("x" * 100 for _ in range(10)))
    response = fetched(Listener(broker), over_quota(0, bytes_max=400), asking(SESSION_VERSIONS[-1], "orders", (0, 0)))
    assert 1 <= len(values(response)[0]) < 4
