"""Requests of so many elements that they are decoded in a thread and carried out in turns."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from kraft.model.access import Operation
from kraft.model.errors import ErrorCode
from kraft.server.access.asker import Asker
from kraft.server.access.guard import ASKED_AT_ONCE
from kraft.server.handlers.fetch import PARTITIONS_AT_ONCE
from kraft.server.kafka_listener import requests as requests_module
from kraft.server.kafka_listener.answering import CloseConnection, HasToWait
from kraft.server.kafka_listener.apis.produce import RESULTS_AT_ONCE
from kraft.server.kafka_listener.requests import DECODED_ON_LOOP_MAX, ConnectionContext, KafkaRequests
from kraft.server.kafka_listener.response_writer import ResponseBytes
from kraft.wire.api_keys import ApiKey
from kraft.wire.codec import decode
from kraft.wire.declaration import Message
from kraft.wire.frame import SIZE_BYTES, decode_response, encode_request
from kraft.wire.schema.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kraft.wire.schema.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from kraft.wire.schema.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.support.server.replicas import batch, values_in
from tests.support.server.serving_topics import SESSION, Served
from tests.support.turn_counter import TurnCounter

MANY: Final = DECODED_ON_LOOP_MAX + 500
PRODUCE_VERSION, FETCH_VERSION = 9, 12
DEADLINE_S: Final = 60.0


def run(test: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a test on a real loop, since virtual time does not wait for a thread."""
    return asyncio.run(asyncio.wait_for(test(), DEADLINE_S))


def frame(request: Message, version: int) -> memoryview:
    return memoryview(bytearray(b"".join(encode_request(request, version, 1, "tester"))))[SIZE_BYTES:]


def begin(requests: KafkaRequests, sent: memoryview) -> Awaitable[ResponseBytes]:
    """Begin a request; what receives the next ones overwrites its bytes."""
    begun = requests.begin(sent)
    sent[:] = bytes(len(sent))
    assert isinstance(begun, Awaitable)
    return begun


def body(answer: ResponseBytes) -> memoryview:
    return memoryview(b"".join(answer))[SIZE_BYTES:]


@pytest.fixture
def server(tmp_path: Path) -> Served:
    return Served(tmp_path, [Operation.READ, Operation.WRITE])


def produce(*topics: str, acks: int = 1) -> memoryview:
    """One batch for each of the topics, whose value is the number of its place."""
    data = [
        TopicProduceData(name=each, partition_data=(PartitionProduceData(index=0, records=batch(str(at))),))
        for at, each in enumerate(topics)
    ]
    return frame(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=tuple(data)), PRODUCE_VERSION)


def fetch(names: Sequence[str], forgotten: Sequence[str] = (), session: int = 0, epoch: int = -1) -> memoryview:
    wanted = (FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000),)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session,
        session_epoch=epoch,
        topics=tuple(FetchTopic(topic=each, partitions=wanted) for each in names),
        forgotten_topics_data=tuple(ForgottenTopic(topic=each, partitions=(0,)) for each in forgotten),
    )
    return frame(request, FETCH_VERSION)


def names_of(count: int) -> list[str]:
    return [f"secret-{number}" for number in range(count)]


async def produced(answer: Awaitable[ResponseBytes]) -> list[int]:
    _, response = decode_response(ProduceResponse, PRODUCE_VERSION, body(await answer))
    return [each.error_code for topic in response.responses for each in topic.partition_responses]


async def fetched(answer: Awaitable[ResponseBytes] | ResponseBytes) -> FetchResponse:
    return decode_response(
        FetchResponse, FETCH_VERSION, body(await answer if isinstance(answer, Awaitable) else answer)
    )[1]


# --- decoding --------------------------------------------------------------------------------------------------------


def test_a_request_of_many_elements_is_decoded_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[int, int] = {}
    asked: list[str] = []

    def noted(*arguments: Any) -> Any:
        request = decode(*arguments)
        threads[len(request.topic_names)] = threading.get_ident()
        return request

    async def delete(request: DeleteTopicsRequest, call: ConnectionContext) -> DeleteTopicsResponse:
        asked[:] = request.topic_names or ()
        return DeleteTopicsResponse(responses=())

    monkeypatch.setattr(requests_module, "decode", noted)

    async def test() -> None:
        for count in (DECODED_ON_LOOP_MAX, DECODED_ON_LOOP_MAX + 1):
            sent = frame(DeleteTopicsRequest(topic_names=tuple(names_of(count)), timeout_ms=5), 1)
            await begin(KafkaRequests({ApiKey.DELETE_TOPICS: delete}, "tests"), sent)
            assert asked == names_of(count)

    run(test)
    assert threads[DECODED_ON_LOOP_MAX] == threading.get_ident()
    assert threads[DECODED_ON_LOOP_MAX + 1] != threading.get_ident()


def test_it_has_no_more_elements_than_its_listener_takes_either(server: Served) -> None:
    async def test() -> None:
        connection = server.connection(elements_max=2 * MANY)
        with pytest.raises(CloseConnection, match="more elements than one message may have"):
            await begin(connection, produce(*names_of(MANY + 1)))
        assert set(await produced(begin(connection, produce(*names_of(MANY))))) == {29}, "another has its turn"

    run(test)


# --- produce ---------------------------------------------------------------------------------------------------------


def test_records_of_many_topics_are_appended_in_their_order_and_answered_as_those_of_few(server: Served) -> None:
    async def test() -> None:
        topics = ["orders" if at % 2 else f"secret-{at}" for at in range(MANY)]
        codes = await produced(begin(server.connection(), produce(*topics)))
        assert codes == [0 if at % 2 else ErrorCode.TOPIC_AUTHORIZATION_FAILED for at in range(MANY)]
        assert values_in(server.partition) == [str(at) for at in range(MANY) if at % 2]
        assert set(await produced(begin(server.connection(), produce(*["orders"] * MANY)))) == {0}

    run(test)


def test_the_next_request_of_its_client_does_not_overtake_it(server: Served) -> None:
    async def test() -> None:
        connection, sent = server.connection(), produce("orders")
        assert connection.is_pipelined(sent)
        answer = asyncio.ensure_future(begin(connection, produce(*["orders"] * MANY)))
        went_on: list[int] = []
        connection.when_ready(lambda: went_on.append(len(values_in(server.partition))))
        assert not connection.is_pipelined(sent)
        await answer
        assert connection.is_pipelined(sent)
        assert went_on[-1:] == [MANY]

    run(test)


def test_only_one_is_copied_at_a_time_and_the_next_is_begun_when_its_records_are_appended(server: Served) -> None:
    async def test() -> None:
        first, second, third = (server.connection() for _ in range(3))
        answer = asyncio.ensure_future(begin(first, produce(*["orders"] * MANY)))
        sent, may_go_on = produce(*["orders"] * MANY), asyncio.Event()
        second.when_ready(may_go_on.set)
        for connection in (second, third):
            with pytest.raises(HasToWait):
                connection.begin(sent)
        small = third.begin(produce("orders"))
        assert server.largest.held, "a small one does not wait"
        third.close()
        await may_go_on.wait()
        assert set(await produced(begin(second, sent))) == {0}
        for earlier in (answer, small):
            assert isinstance(earlier, Awaitable)
            await earlier
        assert len(values_in(server.partition)) == 1 + 2 * MANY
        second.close()
        assert not server.largest.held

    run(test)


def test_it_is_carried_out_though_its_client_disconnects_and_waits_for_no_answer(server: Served) -> None:
    async def test() -> None:
        connection = server.connection()
        answer = asyncio.ensure_future(begin(connection, produce(*["orders"] * MANY, acks=0)))
        await asyncio.sleep(0)
        answer.cancel()
        connection.close()
        next_one, may_go_on = server.connection(), asyncio.Event()
        next_one.when_ready(may_go_on.set)
        with pytest.raises(HasToWait):
            next_one.begin(produce(*["orders"] * MANY))
        await may_go_on.wait()
        await produced(begin(next_one, produce(*["orders"] * MANY)))
        assert len(values_in(server.partition)) == 2 * MANY

    run(test)


# --- turns -----------------------------------------------------------------------------------------------------------


class Asked:
    """Counts what an asker decides between two turns of others."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turns = TurnCounter()
        self.by_turn: Counter[int] = Counter()
        may = Asker.may

        def noted(asker: Asker, *of: Any) -> bool:
            self.by_turn[self.turns.turns] += 1
            return may(asker, *of)

        monkeypatch.setattr(Asker, "may", noted)


@pytest.mark.parametrize(
    ("sent", "at_once"),
    [
        (produce(*names_of(MANY)), RESULTS_AT_ONCE),
        (fetch(names_of(MANY)), ASKED_AT_ONCE),
        (fetch(names_of(MANY), session=0, epoch=0), ASKED_AT_ONCE),
    ],
    ids=["produce", "fetch", "fetch session"],
)
def test_others_have_turns_while_rights_are_looked_up(
    server: Served, monkeypatch: pytest.MonkeyPatch, sent: memoryview, at_once: int
) -> None:
    asked = Asked(monkeypatch)

    async def test() -> None:
        async with asked.turns:
            await begin(server.connection(), sent)
            assert asked.turns.turns > 2 * MANY / at_once

    run(test)
    assert asked.by_turn.total() == MANY
    assert max(asked.by_turn.values()) <= at_once


# --- fetch sessions --------------------------------------------------------------------------------------------------


def test_a_session_takes_many_changes_and_names_each_partition_once(server: Served) -> None:
    async def test() -> None:
        connection, names = server.connection(), names_of(MANY)
        response = await fetched(connection.begin(fetch(names, session=0, epoch=0)))
        assert (response.session_id, len(response.responses)) == (SESSION, MANY)
        changed = fetch(["orders"], forgotten=names[1:], session=SESSION, epoch=1)
        response = await fetched(connection.begin(changed))
        assert [each.topic for each in response.responses] == [names[0], "orders"]

    run(test)


def test_a_session_that_ends_while_it_changes_counts_no_partitions(server: Served) -> None:
    async def test() -> None:
        names = names_of(PARTITIONS_AT_ONCE + 1)
        begun = asyncio.ensure_future(fetched(server.connection().begin(fetch(names, session=0, epoch=0))))
        await asyncio.sleep(0)
        server.sessions.end(SESSION)
        assert (await begun).session_id == 0, "the client begins another one"
        other = server.sessions.begin(uses_topic_ids=False, now_ms=1_000)
        assert other is not None
        assert server.sessions._partitions.held == 0

    run(test)
