from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from uuid import UUID

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from kraft.metadata.records import BrokerFenced, OperatorFenceSet
from kraft.model.endpoint import Endpoint
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.features import FeatureRange
from kraft.model.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResult
from kraft.model.ids import BrokerEpoch, BrokerId, DirectoryId
from kraft.model.liveness import LivenessRequest, LivenessResponse
from kraft.model.register_broker import RegisterBrokerRequest, RegistrationResult
from kraft.rpc.peers import Unreachable
from kraft.server.broker.lifecycle import (
    CONTROLLED_SHUTDOWN_MAX_S,
    CONTROLLED_SHUTDOWN_SILENCE_MAX_S,
    WAITING,
    BrokerLifecycle,
    BrokerRefused,
)
from kraft.server.cluster.controller_client import NoController
from tests.support.cluster_images import cluster
from tests.support.server.fake_controllers import FakeControllers
from tests.support.server.fake_metadata import FollowedMetadata

SESSION_S = 9.0
HEARTBEAT_S = 2.0
IDENTITY = RegisterBrokerRequest(
    cluster_id="ours",
    broker_id=BrokerId(1),
    incarnation_id=UUID(int=5),
    endpoints=[Endpoint(listener="GRPC", host="localhost", port=9094)],
    rack="a",
    directory_ids=[DirectoryId(UUID(int=6))],
    features=[FeatureRange(feature="metadata.version", min_level=1, max_level=2)],
)
REGISTERED = RegistrationResult(broker_epoch=BrokerEpoch(3))
IN_SERVICE = BrokerHeartbeatResult(is_fenced=False, committed_index=40)
NOBODY = NoController("no controller is active")


def lifecycle(controllers: FakeControllers) -> BrokerLifecycle:
    return BrokerLifecycle(
        IDENTITY, controllers.as_client(), heartbeat_interval_s=HEARTBEAT_S, session_timeout_s=SESSION_S
    )


class Metadata(FollowedMetadata):
    """The metadata that broker 1 follows. An operator may keep it fenced."""

    def __init__(self) -> None:
        super().__init__(cluster(1))
        self.published_index = 17
        self.committed: list[int] = []

    def note_committed(self, index: int) -> None:
        self.committed.append(index)

    async def operator_fences(self, fenced: bool) -> None:
        await self.replay(OperatorFenceSet(broker_id=BrokerId(1), fenced=fenced))


def now() -> float:
    return asyncio.get_running_loop().time()


def duplicate() -> RegistrationResult:
    return RegistrationResult(
        error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION, error_message="give each node its own node.id"
    )


# --- registration --------------------------------------------------------------------------------------------------


async def test_a_broker_registers_with_its_whole_identity_and_keeps_its_epoch() -> None:
    controllers = FakeControllers(register_broker=REGISTERED)
    broker = lifecycle(controllers)
    assert (broker.broker_epoch, broker.is_fenced) == (-1, True)
    await broker.register()
    assert broker.broker_epoch == 3
    (request,) = controllers.requests("register_broker")
    assert request == IDENTITY


async def test_a_broker_that_may_have_lost_records_says_so() -> None:
    controllers = FakeControllers(register_broker=REGISTERED)
    broker = BrokerLifecycle(
        replace(IDENTITY, may_have_lost_records=True),
        controllers.as_client(),
        heartbeat_interval_s=HEARTBEAT_S,
        session_timeout_s=SESSION_S,
    )
    await broker.register()
    (request,) = controllers.requests("register_broker")
    assert request.may_have_lost_records


async def test_a_broker_waits_for_a_controller_for_as_long_as_it_takes() -> None:
    controllers = FakeControllers(register_broker=REGISTERED)
    controllers.takes_s = 600
    registering = asyncio.create_task(lifecycle(controllers).register())
    await asyncio.sleep(3_600)
    assert not registering.done()
    controllers.takes_s = 0
    await registering


async def test_why_a_broker_waits_is_a_warning_when_it_changes_and_once_a_minute() -> None:
    controllers = FakeControllers(register_broker=NOBODY)
    broker = lifecycle(controllers)
    controllers.takes_s = 1.0
    with capture_logs() as logs:
        registering = asyncio.create_task(broker.register())
        await asyncio.sleep(125)
        assert broker.registration_problem == "no controller is active"
        controllers.answers["register_broker"] = NoController("they refuse this broker")
        await asyncio.sleep(10)
        controllers.answers["register_broker"] = REGISTERED
        await registering
    waiting = [(each["log_level"], each["reason"]) for each in logs if each["event"] == WAITING]
    assert waiting == [("warning", "no controller is active")] * 3 + [("warning", "they refuse this broker")]
    assert broker.registration_problem == ""


async def test_registration_waits_until_the_session_of_an_earlier_process_ends() -> None:
    began = now()

    def register(_: RegisterBrokerRequest) -> RegistrationResult:
        return duplicate() if now() - began < SESSION_S else REGISTERED

    broker = lifecycle(FakeControllers(register_broker=register))
    await broker.register()
    assert now() - began == pytest.approx(SESSION_S, abs=0.2)


async def test_another_live_process_with_the_same_id_keeps_it() -> None:
    began = now()
    with pytest.raises(BrokerRefused, match=r"give each node its own node\.id"):
        await lifecycle(FakeControllers(register_broker=duplicate())).register()
    assert now() - began == pytest.approx(2 * SESSION_S, abs=0.3)


@pytest.mark.parametrize(
    "code", [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION]
)
async def test_a_permanent_refusal_ends_registration_at_once(code: ErrorCode) -> None:
    result = RegistrationResult(error_code=code, error_message="check cluster.id")
    began = now()
    with pytest.raises(BrokerRefused, match=r"check cluster\.id"):
        await lifecycle(FakeControllers(register_broker=result)).register()
    assert now() == began


# --- heartbeats ----------------------------------------------------------------------------------------------------


async def test_a_fenced_broker_sends_heartbeats_faster_than_one_in_service() -> None:
    controllers = FakeControllers(heartbeat=BrokerHeartbeatResult(is_fenced=True))
    broker, metadata = lifecycle(controllers), Metadata()
    beating = asyncio.create_task(broker.keep_alive(metadata))
    await asyncio.sleep(1.01)
    assert 19 <= len(controllers.asked) <= 22
    controllers.answers["heartbeat"] = IN_SERVICE
    await asyncio.sleep(0.1)
    assert not broker.is_fenced
    controllers.asked.clear()
    await asyncio.sleep(10 * HEARTBEAT_S)
    assert len(controllers.asked) == 10
    assert metadata.committed[-1] == 40
    request = controllers.requests("heartbeat")[-1]
    assert request == BrokerHeartbeatRequest(
        broker_id=BrokerId(1), broker_epoch=BrokerEpoch(-1), metadata_index=17, wants_shutdown=False
    )
    beating.cancel()
    await asyncio.wait([beating])


async def test_a_broker_with_an_operator_fence_sends_a_heartbeat_at_once_when_it_is_removed() -> None:
    controllers, metadata = FakeControllers(heartbeat=BrokerHeartbeatResult(is_fenced=True)), Metadata()
    await metadata.operator_fences(True)
    beating = asyncio.create_task(lifecycle(controllers).keep_alive(metadata))
    await asyncio.sleep(9.5 * HEARTBEAT_S)
    assert len(controllers.asked) == 10
    await metadata.operator_fences(False)
    await asyncio.sleep(0.01)
    assert len(controllers.asked) == 11
    beating.cancel()
    await asyncio.wait([beating])


@pytest.mark.parametrize("by_operator", [True, False])
async def test_a_broker_that_is_fenced_logs_whether_an_operator_did_it(by_operator: bool) -> None:
    controllers, metadata = FakeControllers(heartbeat=IN_SERVICE), Metadata()
    with capture_logs() as events:
        beating = asyncio.create_task(lifecycle(controllers).keep_alive(metadata))
        await asyncio.sleep(HEARTBEAT_S / 2)
        # The heartbeat may be quicker than the metadata.
        controllers.answers["heartbeat"] = BrokerHeartbeatResult(is_fenced=True)
        await asyncio.sleep(HEARTBEAT_S)
        if by_operator:
            await metadata.operator_fences(True)
        await metadata.replay(BrokerFenced(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1)))
        await asyncio.sleep(HEARTBEAT_S)
    fenced = [event for event in events if event["event"] == "broker fenced"]
    assert [event.get("reason") for event in fenced] == ["operator fence" if by_operator else None]
    beating.cancel()
    await asyncio.wait([beating])


# --- attendance ----------------------------------------------------------------------------------------------------


class Held:
    """The active controller, as far as a call is held open towards it."""

    def __init__(self, *, refuses: Exception | None = None) -> None:
        self.address = "controller"
        self.refuses = refuses
        self.asked: list[LivenessRequest] = []
        self.open = 0
        self.over = asyncio.Event()

    async def follow(self, _: object, request: LivenessRequest) -> AsyncGenerator[LivenessResponse, None]:
        self.asked.append(request)
        if self.refuses is not None:
            raise self.refuses
        self.open += 1
        try:
            yield LivenessResponse()
            await self.over.wait()
        finally:
            self.open -= 1


@pytest.mark.parametrize("error", [Unreachable("controller", "refused"), Refusal(ErrorCode.NOT_CONTROLLER, "not me")])
async def test_a_broker_holds_one_call_open_to_the_active_controller(error: Exception) -> None:
    controllers = FakeControllers(register_broker=REGISTERED)
    first, second = Held(), Held(refuses=error)
    broker = lifecycle(controllers)
    await broker.register()
    controllers.active = first
    attending = asyncio.create_task(broker.hold_liveness_stream())
    await asyncio.sleep(600)
    assert first.asked == [LivenessRequest(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(3))]
    assert broker.without_controller_ms() == 0
    controllers.active = second
    first.over.set()
    await asyncio.sleep(5)
    assert broker.without_controller_ms() == 5_000
    assert (first.open, len(first.asked), second.open) == (0, 1, 0)
    assert 5 < len(second.asked) < 50, "tried again, with pauses"
    second.refuses = None
    await asyncio.sleep(1)
    assert second.open == 1
    assert broker.without_controller_ms() == 0
    attending.cancel()
    await asyncio.wait([attending])
    assert second.open == 0


async def test_without_a_controller_a_broker_keeps_trying() -> None:
    controllers = FakeControllers(heartbeat=NOBODY)
    broker, metadata = lifecycle(controllers), Metadata()
    beating = asyncio.create_task(broker.keep_alive(metadata))
    await asyncio.sleep(60)
    assert metadata.committed == []
    controllers.answers["heartbeat"] = BrokerHeartbeatResult(
        error_code=ErrorCode.UNKNOWN_SERVER_ERROR, committed_index=99
    )
    await asyncio.sleep(60)
    assert metadata.committed == []
    controllers.answers["heartbeat"] = IN_SERVICE
    await asyncio.sleep(1)
    assert metadata.committed == [40]
    beating.cancel()
    await asyncio.wait([beating])


async def test_heartbeats_that_fail_are_logged_once_and_then_rarely_and_so_is_the_recovery() -> None:
    controllers = FakeControllers(heartbeat=NOBODY)
    with capture_logs() as logs:
        beating = asyncio.create_task(lifecycle(controllers).keep_alive(Metadata()))
        await asyncio.sleep(150)
        controllers.answers["heartbeat"] = IN_SERVICE
        await asyncio.sleep(10)
        controllers.answers["heartbeat"] = NOBODY
        await asyncio.sleep(10)
        beating.cancel()
        await asyncio.wait([beating])
    lines = [line for line in logs if line["event"].startswith("heartbeat")]
    assert [line["event"] for line in lines] == ["heartbeat failed"] * 3 + ["heartbeats answered again"] + [
        "heartbeat failed"
    ]
    assert all(line["reason"] == "no controller is active" for line in lines if line["event"] == "heartbeat failed")
    omitted = [line.get("failures_not_logged", 0) for line in lines]
    assert omitted[0] == omitted[4] == 0
    assert omitted[1] > 5
    assert lines[3]["failed_for_s"] == pytest.approx(150, abs=5)
    assert lines[3]["failures"] >= omitted[1] + omitted[2] + 3


@pytest.mark.parametrize(
    ("code", "message", "remedy"),
    [
        (
            ErrorCode.STALE_BROKER_EPOCH,
            "broker 1 is registered under broker epoch 4, not 3",
            "another process registered as this broker; run only one with this node.id",
        ),
        (
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            "broker 1 is not registered",
            "it was unregistered; restart the node to register it again",
        ),
    ],
)
async def test_a_broker_that_is_no_longer_registered_stops(code: ErrorCode, message: str, remedy: str) -> None:
    result = BrokerHeartbeatResult(error_code=code, error_message=message)
    with pytest.raises(BrokerRefused, match=f"^{message}: {remedy}$"):
        await lifecycle(FakeControllers(heartbeat=result)).keep_alive(Metadata())


# --- controlled shutdown -------------------------------------------------------------------------------------------


async def test_a_broker_asks_until_its_leaderships_have_moved() -> None:
    beats = list[BrokerHeartbeatRequest]()

    def heartbeat(request: BrokerHeartbeatRequest) -> BrokerHeartbeatResult:
        beats.append(request)
        return BrokerHeartbeatResult(may_stop=len(beats) == 3)

    await lifecycle(FakeControllers(heartbeat=heartbeat)).shut_down(lambda: 5)
    assert [beat.wants_shutdown for beat in beats] == [True, True, True]


async def test_a_shutdown_without_a_controller_ends_soon() -> None:
    began = now()
    await lifecycle(FakeControllers(heartbeat=NOBODY)).shut_down(lambda: 5)
    assert now() - began == pytest.approx(CONTROLLED_SHUTDOWN_SILENCE_MAX_S, abs=0.2)


async def test_a_shutdown_with_a_silent_controller_ends_too() -> None:
    controllers = FakeControllers(heartbeat=IN_SERVICE)
    controllers.takes_s = 3_600
    began = now()
    await lifecycle(controllers).shut_down(lambda: 5)
    # However long a session is.
    assert now() - began <= CONTROLLED_SHUTDOWN_SILENCE_MAX_S + 0.2 < SESSION_S / 2


async def test_leaderships_that_cannot_be_moved_do_not_block_a_shutdown_for_ever() -> None:
    began = now()
    await lifecycle(FakeControllers(heartbeat=IN_SERVICE)).shut_down(lambda: 5)
    assert now() - began == pytest.approx(CONTROLLED_SHUTDOWN_MAX_S, abs=0.1)
