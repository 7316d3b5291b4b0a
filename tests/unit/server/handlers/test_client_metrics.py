"""What a client is asked for, and what becomes of its pushes, by the rules of Kafka."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from structlog.testing import capture_logs

from kraft.log.format.compression import Codec, compress
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.records import ClientMetricsConfigSet
from kraft.model.callbacks import Callback
from kraft.model.errors import ErrorCode, Refusal
from kraft.runtime.entropy import SystemEntropy
from kraft.server.client_metrics import receiving
from kraft.server.client_metrics.pushing_client import PushingClient
from kraft.server.client_metrics.receiving import ClientMetrics
from kraft.server.handlers.client_metrics import ClientMetricsHandler
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kraft.wire.schema.push_telemetry import PushTelemetryRequest
from tests.support.client_pushes import gauge, pushed
from tests.support.server.replicas import InlineExecutor

CLIENT = UUID("0b5e7a32-58e5-4c5f-9b6c-0f1c1f1f0001")
OTHER = UUID("0b5e7a32-58e5-4c5f-9b6c-0f1c1f1f0002")
RESERVED = UUID(int=1)
JAVA = PushingClient(client_id="shop", software_name="apache-kafka-java", host="10.0.0.7", principal="User:anna")
INTERVAL_MS = 1_000
BYTES_MAX = 10_000


def subscribed(image: MetadataImage = EMPTY_IMAGE, name: str = "all", **configs: str) -> MetadataImage:
    return image.replay(
        [ClientMetricsConfigSet(name=name, key=key.replace("_", "."), value=value) for key, value in configs.items()]
    )


class Broker:
    """A broker's client metrics, at a time of the test's."""

    def __init__(self, image: MetadataImage, *, is_received: bool = True) -> None:
        self.image = image
        self.now_ms = 1
        self.metrics = ClientMetrics(
            lambda: self.image, InlineExecutor(), lambda: self.now_ms, BYTES_MAX, is_received=is_received
        )
        self._handler = ClientMetricsHandler(self.metrics, SystemEntropy())

    async def ask(self, instance_id: UUID = CLIENT, client: PushingClient = JAVA) -> GetTelemetrySubscriptionsResponse:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
        return await self._handler.subscriptions(request, client)

    async def push(
        self,
        subscription_id: int,
        data: bytes = b"",
        *,
        codec: int = 0,
        terminating: bool = False,
        instance_id: UUID = CLIENT,
        client: PushingClient = JAVA,
    ) -> None:
        request = PushTelemetryRequest(
            client_instance_id=instance_id,
            subscription_id=subscription_id,
            terminating=terminating,
            compression_type=codec,
            metrics=data,
        )
        response = await self._handler.push(request, client)
        assert response.error_code == ErrorCode.NONE


@pytest.fixture
def broker() -> Broker:
    return Broker(subscribed(metrics="*", interval_ms=str(INTERVAL_MS)))


def refused(code: ErrorCode) -> pytest.RaisesExc[Refusal]:
    return pytest.RaisesExc(Refusal, check=lambda refusal: refusal.error_code is code)


# --- what is wanted -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "is_received"), [(EMPTY_IMAGE, True), (subscribed(metrics="*", interval_ms="1000"), False)]
)
async def test_nothing_is_wanted_for_five_minutes_without_a_subscription_or_somewhere_to_read_it(
    image: MetadataImage, is_received: bool
) -> None:
    broker = Broker(image, is_received=is_received)
    answer = await broker.ask()
    assert (answer.error_code, answer.requested_metrics, answer.push_interval_ms) == (ErrorCode.NONE, (), 300_000)
    assert answer.client_instance_id == CLIENT
    await broker.push(answer.subscription_id, pushed(gauge("a", 1.0)))
    assert len(broker.metrics.received) == is_received


async def test_a_client_without_an_id_gets_one_of_its_own(broker: Broker) -> None:
    given = [(await broker.ask(ZERO_UUID)).client_instance_id for _ in range(2)]
    assert len({ZERO_UUID, *given}) == 3


async def test_a_client_is_told_what_is_wanted(broker: Broker) -> None:
    answer = await broker.ask()
    assert (answer.requested_metrics, answer.push_interval_ms) == (("*",), INTERVAL_MS)
    assert (answer.accepted_compression_types, answer.telemetry_max_bytes) == ((4, 3, 1, 2), BYTES_MAX)
    assert answer.delta_temporality


async def test_expressions_are_matched_with_what_the_connection_knows(broker: Broker) -> None:
    broker.image = subscribed(metrics="a", match=r"client_software_name=.*java,client_source_address=10\..*")
    assert (await broker.ask()).requested_metrics == ("a",)
    rdkafka = PushingClient(client_id="shop", software_name="librdkafka", host="10.0.0.7")
    assert (await broker.ask(OTHER, rdkafka)).requested_metrics == ()
    # A client that does not name its software is of unknown software.
    broker.image = subscribed(metrics="u", match="client_software_name=unknown,client_software_version=unknown")
    assert (await broker.ask(OTHER, PushingClient(client_id="old"))).requested_metrics == ("u",)
    broker.image = subscribed(metrics="b", match=f"client_instance_id={CLIENT}")
    assert (await broker.ask()).requested_metrics == ("b",)


# --- when a client may ask or push --------------------------------------------------------------------------------


async def test_who_asks_again_before_the_interval_is_over_is_throttled(broker: Broker) -> None:
    await broker.ask()
    broker.now_ms += INTERVAL_MS - 1
    with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        await broker.ask()
    broker.now_ms += 1
    await broker.ask()
    assert broker.metrics.refused == {ErrorCode.THROTTLING_QUOTA_EXCEEDED: 1}


async def test_who_asked_may_push_at_once_and_again_after_the_interval(broker: Broker) -> None:
    subscription = (await broker.ask()).subscription_id
    broker.now_ms += 1
    await broker.push(subscription)
    broker.now_ms += INTERVAL_MS - 1
    with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        await broker.push(subscription)
    broker.now_ms += 1
    await broker.push(subscription)
    assert broker.metrics.pushes == 2


async def test_new_subscriptions_are_told_at_once(broker: Broker) -> None:
    before = await broker.ask()
    broker.image = subscribed(broker.image, "more", interval_ms="500")
    with refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID):
        await broker.push(before.subscription_id)
    after = await broker.ask()
    assert after.subscription_id != before.subscription_id
    assert after.push_interval_ms == 500


@pytest.mark.parametrize(
    ("code", "codec", "id_off_by"),
    [(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, 0, 1), (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 9, 0)],
)
async def test_who_has_to_ask_again_may_do_so_at_once(
    broker: Broker, code: ErrorCode, codec: int, id_off_by: int
) -> None:
    answer = await broker.ask()
    with refused(code):
        await broker.push(answer.subscription_id + id_off_by, codec=codec)
    assert await broker.ask() == answer
    with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        await broker.ask()


async def test_a_push_without_a_question_needs_the_id_that_the_answer_would_have(broker: Broker) -> None:
    with refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID):
        await broker.push(7)
    broker.now_ms += INTERVAL_MS
    subscription = (await broker.ask()).subscription_id
    broker.metrics.instances.forget(CLIENT)
    await broker.push(subscription)


async def test_the_last_push_comes_at_any_time_and_nothing_after_it(broker: Broker) -> None:
    subscription = (await broker.ask()).subscription_id
    await broker.push(subscription)
    await broker.push(subscription, terminating=True)
    broker.now_ms += INTERVAL_MS
    with refused(ErrorCode.INVALID_REQUEST):
        await broker.push(subscription, terminating=True)


@pytest.mark.parametrize("instance_id", [ZERO_UUID, RESERVED])
async def test_ids_that_are_nobodys_are_refused(broker: Broker, instance_id: UUID) -> None:
    with refused(ErrorCode.INVALID_REQUEST):
        await broker.push(7, instance_id=instance_id)


async def test_a_client_is_forgotten_with_its_connection(broker: Broker) -> None:
    gone: list[Callback] = []
    await broker.ask(client=PushingClient(client_id="shop", call_when_gone=gone.append))
    gone.pop()()
    await broker.ask()


async def test_clients_that_are_silent_for_three_intervals_and_a_minute_are_forgotten(broker: Broker) -> None:
    await broker.ask()
    broker.now_ms += 60_001
    await broker.ask(OTHER)
    assert len(broker.metrics.instances) == 1


async def test_of_too_many_clients_those_that_were_silent_longest_are_forgotten(broker: Broker) -> None:
    for number in range(16_385):
        await broker.ask(UUID(int=number + 2))
    assert len(broker.metrics.instances) == 16_384
    await broker.ask(UUID(int=2))
    with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        await broker.ask(UUID(int=100))


# --- what is pushed -----------------------------------------------------------------------------------------------


async def test_what_is_pushed_is_kept_in_any_compression(broker: Broker) -> None:
    data = pushed(gauge("org.apache.kafka.producer.connection.count", 3.0))
    subscription = (await broker.ask()).subscription_id
    for codec in Codec:
        await broker.push(subscription, compress(codec, data), codec=codec)
        broker.now_ms += INTERVAL_MS
    assert broker.metrics.received.series_count == 1


@pytest.mark.parametrize(
    ("data", "codec", "code"),
    [
        (b"x" * (BYTES_MAX + 1), Codec.NONE, ErrorCode.TELEMETRY_TOO_LARGE),
        (compress(Codec.ZSTD, bytes(4 << 20)), Codec.ZSTD, ErrorCode.TELEMETRY_TOO_LARGE),
        (compress(Codec.GZIP, bytes(4 << 20)), Codec.GZIP, ErrorCode.TELEMETRY_TOO_LARGE),
        (b"not compressed", Codec.ZSTD, ErrorCode.INVALID_RECORD),
        (b"not compressed", Codec.SNAPPY, ErrorCode.INVALID_RECORD),
        (b"random \xff\x00", Codec.NONE, ErrorCode.INVALID_RECORD),
        (pushed(gauge("a", 1.0))[:-1], Codec.NONE, ErrorCode.INVALID_RECORD),
    ],
)
async def test_what_cannot_be_read_is_refused_and_nothing_of_it_kept(
    broker: Broker, data: bytes, codec: Codec, code: ErrorCode
) -> None:
    subscription = (await broker.ask()).subscription_id
    with refused(code):
        await broker.push(subscription, data, codec=codec)
    assert (len(broker.metrics.received), broker.metrics.pushes) == (0, 0)
    broker.now_ms += INTERVAL_MS
    await broker.push(subscription, pushed(gauge("a", 1.0)))
    assert broker.metrics.received.series_count == 1


async def test_what_is_too_large_is_refused_before_it_is_looked_at() -> None:
    broker = Broker(EMPTY_IMAGE, is_received=False)
    subscription = (await broker.ask()).subscription_id
    with refused(ErrorCode.TELEMETRY_TOO_LARGE):
        await broker.push(subscription, bytes(BYTES_MAX + 1))


async def test_another_user_cannot_change_the_series_of_a_client(broker: Broker) -> None:
    subscription = (await broker.ask()).subscription_id
    await broker.push(subscription, pushed(gauge("a", 1.0)))
    broker.now_ms += INTERVAL_MS
    with refused(ErrorCode.INVALID_REQUEST):
        await broker.push(subscription, pushed(gauge("a", 2.0)), client=PushingClient(principal="User:mallory"))


async def test_pushes_that_wait_have_a_limit_and_one_goes_through_in_any_case(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "WAITING_BYTES_MAX", 1)
    first, second = (await broker.ask()).subscription_id, (await broker.ask(OTHER)).subscription_id
    data = pushed(gauge("a", 1.0))
    results = await asyncio.gather(
        broker.push(first, data), broker.push(second, data, instance_id=OTHER), return_exceptions=True
    )
    assert [each.error_code for each in results if isinstance(each, Refusal)] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    broker.now_ms += INTERVAL_MS
    await broker.push(second, data, instance_id=OTHER)


async def test_what_is_left_out_is_logged_now_and_then(broker: Broker) -> None:
    subscription = (await broker.ask()).subscription_id
    histogram = MetricsData()
    histogram.resource_metrics.add().scope_metrics.add().metrics.add().histogram.data_points.add()
    with capture_logs() as logged:
        for _ in range(2):
            await broker.push(subscription, histogram.SerializeToString())
            broker.now_ms += INTERVAL_MS
    assert [each["cut_pushes"] for each in logged] == [1]
    assert broker.metrics.received.cut_pushes == 2


async def test_a_push_is_kept_though_its_client_disconnects_at_once(broker: Broker) -> None:
    subscription = (await broker.ask()).subscription_id
    task = asyncio.ensure_future(broker.push(subscription, pushed(gauge("a", 1.0)), terminating=True))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # It is one of the tasks that are left.
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()}, timeout=10)
    assert broker.metrics.received.series_count == 1
