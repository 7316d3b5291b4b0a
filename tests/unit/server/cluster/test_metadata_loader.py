from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from kraft.metadata.features import METADATA_VERSION, UnsupportedFeatureLevel
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.records import (
    BrokerUnfenced,
    ClusterInitialised,
    FeatureLevelSet,
    MetadataRecord,
    MetadataTransactionAborted,
    MetadataTransactionBegun,
    MetadataTransactionEnded,
    TopicCreated,
)
from kraft.metadata.replayed_image import ContradictoryEntry
from kraft.metadata.snapshot_records import snapshot_records
from kraft.model.errors import Corruption, ErrorCode, Refusal
from kraft.model.follow_metadata import MetadataBatch
from kraft.model.ids import BrokerEpoch, BrokerId, TopicId
from kraft.rpc.metadata_codec import encode_records
from kraft.rpc.peers import Unreachable
from kraft.server.broker.lifecycle import BrokerLifecycle, BrokerRefused
from kraft.server.cluster.metadata_loader import LAG_MAX_S, SILENCE_MAX_S, MetadataLoader
from kraft.server.cluster.metadata_snapshots import LoadedImage
from tests.support.cluster_images import CLUSTER, registered, registration
from tests.support.scram_users import password_records
from tests.support.server.fake_controllers import FakeControllers

BROKER = BrokerId(1)
EPOCH = BrokerEpoch(5)


def topic(name: str, number: int) -> TopicCreated:
    return TopicCreated(topic=name, topic_id=TopicId(UUID(int=number)))


@dataclass(slots=True)
class Controller:
    """Sends a beat every half second, and the entries that the test gives it."""

    address: str = "controller-1"
    entries: list[tuple[int, bytes]] = field(default_factory=list)
    snapshot: list[MetadataBatch] = field(default_factory=list)
    """Sent first to whoever holds less."""
    is_down: bool = False
    is_silent: bool = False
    refuses: Refusal | None = None
    asked_after: list[int] = field(default_factory=list)
    open_streams: int = 0

    def commit(self, index: int, *records: MetadataRecord) -> None:
        self.entries.append((index, encode_records(records)))

    @property
    def committed(self) -> int:
        return self.entries[-1][0] if self.entries else 0

    async def follow(self, stream: Any, request: Any) -> AsyncGenerator[Any, None]:
        self.asked_after.append(request.after_index)
        self.open_streams += 1
        try:
            if self.refuses is not None:
                raise self.refuses
            sent = request.after_index
            for part in self.snapshot:
                if request.after_index < part.index:
                    yield part
                    sent = part.index
            while True:
                if self.is_down:
                    raise Unreachable(self.address, "connection refused")
                for index, records in [entry for entry in self.entries if entry[0] > sent]:
                    sent = index
                    yield MetadataBatch(index=index, term=1, records=records, committed_index=self.committed)
                await asyncio.sleep(0.5)
                if self.is_silent:
                    await asyncio.Event().wait()
                yield MetadataBatch(index=sent, term=0, records=b"", committed_index=self.committed)
        finally:
            self.open_streams -= 1


class SlowController(Controller):
    """Sends something every second."""

    async def follow(self, stream: Any, request: Any) -> AsyncGenerator[Any, None]:
        async with aclosing(Controller.follow(self, stream, request)) as batches:
            async for batch in batches:
                await asyncio.sleep(1)
                yield batch


class Controllers:
    def __init__(self, *controllers: Controller) -> None:
        self.now: Sequence[Controller] = controllers

    def peers(self) -> Sequence[Controller]:
        return self.now


class Published:
    """The images that the loader published."""

    def __init__(self) -> None:
        self.steps: list[tuple[MetadataImage, MetadataImage]] = []
        self.takes_s = 0.0

    async def publish(self, before: MetadataImage, after: MetadataImage) -> None:
        await asyncio.sleep(self.takes_s)
        self.steps.append((before, after))

    def topics(self) -> list[list[str]]:
        return [sorted(after.topic_ids) for _, after in self.steps]


def loader_of(controllers: Controllers, published: Published) -> MetadataLoader:
    identity = registration(BROKER)
    life = BrokerLifecycle(identity, FakeControllers().as_client(), heartbeat_interval_s=2, session_timeout_s=9)
    life.registration.broker_epoch = EPOCH
    return MetadataLoader(CLUSTER, BROKER, controllers, published.publish, is_current=life.is_registered_in)


@asynccontextmanager
async def following(*controllers: Controller, published: Published | None = None) -> AsyncIterator[MetadataLoader]:
    async with in_use(loader_of(Controllers(*controllers), published or Published())) as loader:
        yield loader


@asynccontextmanager
async def in_use(loader: MetadataLoader) -> AsyncIterator[MetadataLoader]:
    running = asyncio.create_task(loader.run())
    try:
        yield loader
    finally:
        running.cancel()
        await asyncio.wait([running])


def up_to_date(address: str = "controller-1") -> Controller:
    controller = Controller(address)
    controller.commit(2, ClusterInitialised(cluster_id=CLUSTER))
    controller.commit(4, registered(BROKER, epoch=EPOCH))
    return controller


async def test_everything_received_at_the_start_is_applied_in_one_step() -> None:
    controller, published = up_to_date(), Published()
    controller.commit(5, topic("orders", 1))
    async with following(controller, published=published) as loader:
        assert await loader.until(lambda image: image.topic("orders") is not None, 5)
        assert published.steps == [(EMPTY_IMAGE, loader.image)]
        assert loader.published_index == 5


async def test_each_later_entry_is_a_step_from_the_image_before() -> None:
    controller, published = up_to_date(), Published()
    async with following(controller, published=published) as loader:
        await loader.until(lambda image: bool(image.cluster_id), 5)
        controller.commit(9, topic("orders", 1))
        assert await loader.until(lambda image: image.topic("orders") is not None, 5)
        (_, first), (before, after) = published.steps
        assert before is first
        assert (loader.published_index, loader.image) == (9, after)


async def test_nothing_is_applied_before_the_registration_of_this_process_has_arrived() -> None:
    # A voter that was just started: it knows of an earlier life of this broker, and of no topic yet.
    restarted, published = Controller(), Published()
    restarted.commit(2, ClusterInitialised(cluster_id=CLUSTER))
    restarted.commit(
        3, registered(BROKER, epoch=EPOCH - 1), BrokerUnfenced(broker_id=BROKER, broker_epoch=BrokerEpoch(4))
    )
    async with following(restarted, published=published) as loader:
        assert not await loader.until(lambda image: bool(image.cluster_id), 5)
        assert (published.steps, loader.published_index) == ([], 0)
        restarted.commit(6, topic("orders", 1))
        restarted.commit(7, registered(BROKER, epoch=EPOCH))
        assert await loader.until(lambda image: bool(image.cluster_id), 5)
        assert published.topics() == [["orders"]]


@pytest.mark.parametrize("had_begun", [True, False])
async def test_a_broker_whose_id_another_process_took_applies_none_of_its_metadata_and_stops(had_begun: bool) -> None:
    controller, published = Controller(), Published()
    controller.commit(2, ClusterInitialised(cluster_id=CLUSTER))
    loader = loader_of(Controllers(controller), published)
    running = asyncio.create_task(loader.run())
    if had_begun:
        controller.commit(4, registered(BROKER, epoch=EPOCH))
        assert await loader.until(lambda image: bool(image.cluster_id), 5)
    steps = list(published.steps)
    # What the successor is to lead, the process before it must neither lead nor follow.
    controller.commit(8, registered(BROKER, epoch=EPOCH + 1), topic("of the successor", 1))
    with pytest.raises(BrokerRefused, match="with broker epoch 6, not 5: another process registered as this broker"):
        async with asyncio.timeout(60):
            await running
    assert published.steps == steps


async def test_an_entry_of_another_metadata_log_ends_the_broker_with_words_for_an_operator() -> None:
    controller, published = Controller(), Published()
    controller.commit(2, ClusterInitialised(cluster_id=CLUSTER))
    controller.commit(4, registered(BROKER, epoch=EPOCH))
    loader = loader_of(Controllers(controller), published)
    running = asyncio.create_task(loader.run())
    assert await loader.until(lambda image: image.broker(BROKER) is not None, 5)
    controller.commit(6, registered(BROKER, epoch=EPOCH - 1))
    with pytest.raises(ContradictoryEntry, match="not that of its quorum"):
        async with asyncio.timeout(60):
            await running


async def test_a_broker_switches_from_a_controller_that_is_down() -> None:
    down = Controller("down", is_down=True)
    async with following(down, up_to_date("up")) as loader:
        assert await loader.until(lambda image: bool(image.cluster_id), 1)


async def test_connections_that_were_replaced_as_by_renewed_certificates_are_not_used_again() -> None:
    old, renewed = up_to_date(), up_to_date()
    async with in_use(loader_of(controllers := Controllers(old), Published())) as loader:
        await loader.until(lambda image: bool(image.cluster_id), 5)
        controllers.now, old.is_down = [renewed], True
        await asyncio.sleep(5)
        assert (old.asked_after, renewed.asked_after) == ([0], [4])


async def test_a_broker_switches_from_a_silent_controller_and_continues_at_the_same_index() -> None:
    first, second = up_to_date("first"), up_to_date("second")
    async with following(first, second) as loader:
        await loader.until(lambda image: bool(image.cluster_id), 5)
        first.is_silent = True
        second.commit(8, topic("orders", 1))
        assert await loader.until(lambda image: image.topic("orders") is not None, SILENCE_MAX_S + 2)
        assert second.asked_after == [4]
        assert first.open_streams == 0


async def test_a_broker_switches_from_a_controller_that_lacks_committed_entries() -> None:
    behind, active = up_to_date("behind"), up_to_date("active")
    async with following(behind, active) as loader:
        await loader.until(lambda image: bool(image.cluster_id), 5)
        active.commit(8, topic("orders", 1))
        loader.note_committed(8)
        loader.note_committed(4)  # An earlier heartbeat, whose response comes later.
        assert not await loader.until(lambda image: image.topic("orders") is not None, LAG_MAX_S - 1)
        assert (loader.published_index, round(loader.behind_s(), 1)) == (4, LAG_MAX_S - 1)
        assert await loader.until(lambda image: image.topic("orders") is not None, 3)
        assert (active.asked_after, loader.behind_s(), loader.applied) == ([4], 0, 2)


async def test_an_old_committed_index_of_the_active_controller_is_no_lag() -> None:
    controller = up_to_date()
    async with following(controller) as loader:
        loader.note_committed(4)
        loader.note_committed(2)
        await asyncio.sleep(60)
        assert controller.asked_after == [0]


async def test_a_controller_that_is_behind_does_not_undo_applied_entries() -> None:
    first, behind = up_to_date("first"), Controller("behind")
    behind.commit(2, ClusterInitialised(cluster_id=CLUSTER))
    published = Published()
    async with following(first, behind, published=published) as loader:
        await loader.until(lambda image: bool(image.cluster_id), 5)
        first.is_down = True
        await asyncio.sleep(1)
        assert behind.open_streams == 1
        behind.commit(4, registered(BROKER, epoch=EPOCH))
        await asyncio.sleep(1)
        assert (len(published.steps), loader.published_index) == (1, 4)


async def test_a_broker_switches_from_a_controller_of_another_cluster_and_logs_it() -> None:
    stranger = Controller("stranger", refuses=Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, "check cluster.id"))
    async with following(stranger, up_to_date()) as loader:
        assert await loader.until(lambda image: bool(image.cluster_id), 5)


async def test_entries_that_arrive_during_a_step_make_the_next_step() -> None:
    controller, published = up_to_date(), Published()
    published.takes_s = 10
    async with following(controller, published=published) as loader:
        await asyncio.sleep(1)
        controller.commit(5, topic("a", 1))
        controller.commit(6, topic("b", 2))
        assert loader.published_index == 0, "it has not acted yet"
        assert await loader.until(lambda image: image.topic("b") is not None, 60)
        assert published.topics() == [[], ["a", "b"]]


async def test_an_unknown_kind_of_entry_stops_the_broker() -> None:
    controller = up_to_date()
    controller.entries.append((5, b"\xff\xff"))
    loader = loader_of(Controllers(controller), Published())
    with pytest.raises(Corruption):
        await loader.run()


async def test_a_broker_switches_from_a_controller_that_never_sends_its_registration() -> None:
    cut_off = Controller("cut off")
    cut_off.commit(2, ClusterInitialised(cluster_id=CLUSTER))
    async with following(cut_off, up_to_date("active")) as loader:
        assert await loader.until(lambda image: bool(image.cluster_id), LAG_MAX_S + 2)


# --- transactions ------------------------------------------------------------------------------------------------


async def test_nothing_of_a_transaction_is_applied_or_kept_before_its_end() -> None:
    controller, published = up_to_date(), Published()
    async with following(controller, published=published) as loader:
        await loader.until(lambda image: bool(image.cluster_id), 5)
        controller.commit(5, MetadataTransactionBegun(), topic("a", 1))
        controller.commit(6, topic("b", 2))
        await asyncio.sleep(1)
        assert loader.image.topic("a") is None
        assert loader.current_image() == LoadedImage(image=loader.image, index=4, term=1)
        controller.commit(7, topic("c", 3), MetadataTransactionEnded())
        assert await loader.until(lambda image: image.topic("a") is not None, 5)
        assert published.topics() == [[], ["a", "b", "c"]]
        assert loader.published_index == 7


async def test_of_an_aborted_transaction_nothing_is_left() -> None:
    controller, published = up_to_date(), Published()
    controller.commit(5, MetadataTransactionBegun(), topic("a", 1))
    controller.commit(6, MetadataTransactionAborted())
    controller.commit(7, topic("a", 2))
    async with following(controller, published=published) as loader:
        assert await loader.until(lambda image: image.topic("a") is not None, 5)
        assert loader.image.topic_by_id(UUID(int=1)) is None
        assert loader.published_index == 7


async def test_an_interrupted_transaction_is_received_again_from_another_controller() -> None:
    first, second, published = up_to_date("first"), up_to_date("second"), Published()
    for controller in (first, second):
        controller.commit(5, MetadataTransactionBegun(), topic("a", 1))
    second.commit(6, topic("b", 2), MetadataTransactionEnded())
    async with following(first, second, published=published) as loader:
        await asyncio.sleep(1)
        first.is_down = True
        assert await loader.until(lambda image: image.topic("b") is not None, 5)
        assert second.asked_after == [4]
        assert sorted(loader.image.topic_ids) == ["a", "b"]


# --- snapshots ---------------------------------------------------------------------------------------------------


def snapshot_of(image: MetadataImage, index: int) -> list[MetadataBatch]:
    """One record a part."""
    parts = [encode_records([record]) for record in snapshot_records(image)] + [b""]
    return [
        MetadataBatch(
            index=index, term=7, records=part, committed_index=index, in_snapshot=True, ends_snapshot=part == b""
        )
        for part in parts
    ]


def image_with(*topics: str) -> MetadataImage:
    created = [topic(name, number) for number, name in enumerate(topics, start=1)]
    return EMPTY_IMAGE.replay([ClusterInitialised(cluster_id=CLUSTER), registered(BROKER, epoch=EPOCH), *created])


async def test_a_snapshot_is_applied_when_it_is_complete_and_entries_continue_from_there() -> None:
    controller, published = Controller(), Published()
    controller.snapshot = snapshot_of(image_with("a"), 50)
    controller.entries.append((51, encode_records([topic("b", 2)])))
    async with following(controller, published=published) as loader:
        assert await loader.until(lambda image: image.topic("b") is not None, 5)
        assert published.topics()[0] != [], "no part of it alone"
        assert loader.image == image_with("a", "b")
        assert loader.current_image() == LoadedImage(image=loader.image, index=51, term=1)


async def test_nobody_knows_whether_a_user_of_a_snapshot_was_deleted_and_made_again() -> None:
    controller = up_to_date()
    controller.commit(5, *password_records("alice", "secret"))
    async with following(controller) as loader:
        await asyncio.sleep(1)
        before = loader.image.users
        whole = loader.image.replay([topic("orders", 7)])
        controller.is_down = True
        controller.snapshot = snapshot_of(whole, 9)
        await asyncio.sleep(0.6)
        controller.is_down = False
        await asyncio.sleep(1)
        assert loader.published_index == 9
        assert loader.image.users == before
        assert (before.creation("alice"), loader.image.users.creation("alice")) == (1, 2)


async def test_a_snapshot_that_contradicts_itself_ends_the_broker_with_words_for_an_operator() -> None:
    controller = Controller()
    controller.snapshot = snapshot_of(image_with("a"), 50)
    # The same topic twice.
    controller.snapshot.insert(-1, controller.snapshot[-2])
    with pytest.raises(ContradictoryEntry, match="not that of its quorum"):
        async with asyncio.timeout(60):
            await loader_of(Controllers(controller), Published()).run()


async def test_an_interrupted_snapshot_is_discarded() -> None:
    breaks_off, whole = Controller("breaks off", is_down=True), Controller("whole")
    breaks_off.snapshot = snapshot_of(image_with("a", "b"), 50)[:-2]
    whole.snapshot = snapshot_of(image_with("a"), 50)
    async with following(breaks_off, whole) as loader:
        assert await loader.until(lambda image: bool(image.cluster_id), 5)
        assert breaks_off.asked_after == whole.asked_after == [0]
        assert loader.image == image_with("a")


async def test_a_snapshot_that_is_ahead_of_the_applied_image_is_one_step() -> None:
    first, second, published = up_to_date("first"), Controller("second"), Published()
    async with following(first, second, published=published) as loader:
        await loader.until(lambda image: bool(image.cluster_id), 5)
        second.snapshot = snapshot_of(image_with("a"), 50)
        first.is_down = True
        assert await loader.until(lambda image: image.topic("a") is not None, 5)
        assert published.steps[-1] == (published.steps[0][1], image_with("a"))


async def test_a_broker_continues_from_its_snapshot_and_applies_it_after_its_registration() -> None:
    before = EMPTY_IMAGE.replay([ClusterInitialised(cluster_id=CLUSTER), registered(BROKER, epoch=EPOCH - 1)])
    controller, published = Controller(), Published()
    loader = loader_of(Controllers(controller), published)
    loader.start_from(LoadedImage(image=before, index=40, term=2))
    async with in_use(loader):
        assert not await loader.until(lambda image: bool(image.cluster_id), 1)
        controller.commit(41, registered(BROKER, epoch=EPOCH))
        assert await loader.until(lambda image: bool(image.cluster_id), 5)
    assert (controller.asked_after[0], loader.published_index) == (40, 41)
    assert published.steps == [(EMPTY_IMAGE, loader.image)]


async def test_a_broker_switches_from_a_controller_that_lost_entries_and_logs_it() -> None:
    loader = loader_of(Controllers(up_to_date()), Published())
    loader.start_from(LoadedImage(image=EMPTY_IMAGE, index=40, term=2))
    with capture_logs() as events, pytest.raises(TimeoutError):
        await asyncio.wait_for(loader.run(), LAG_MAX_S + 2)
    assert "its committed index is 4, and this broker has index 40" in [event.get("reason") for event in events]


async def test_a_long_snapshot_or_transaction_does_not_cause_a_switch() -> None:
    slow, other = SlowController("slow"), up_to_date("other")
    slow.snapshot = snapshot_of(image_with("a", "b", "c"), 50)
    slow.commit(51, MetadataTransactionBegun(), topic("d", 4))
    for number in range(5, 12):
        slow.commit(47 + number, topic(f"t-{number}", number))
    slow.commit(59, MetadataTransactionEnded())
    async with following(slow, other) as loader:
        loader.note_committed(59)
        assert await loader.until(lambda image: image.topic("t-11") is not None, 60)
        assert slow.asked_after == [0]
        assert other.asked_after == []


# --- feature levels ----------------------------------------------------------------------------------------------

LATER_LEVEL = FeatureLevelSet(feature=METADATA_VERSION, level=9)
LATER = r"the cluster is at level 9 of metadata\.version"


async def test_an_entry_of_a_level_beyond_its_own_support_stops_the_broker() -> None:
    controller, published = up_to_date(), Published()
    controller.commit(5, LATER_LEVEL)
    loader = loader_of(Controllers(controller), published)
    with pytest.raises(UnsupportedFeatureLevel, match=LATER):
        await asyncio.wait_for(loader.run(), 60)
    assert loader.current_image().index == 4


async def test_a_snapshot_of_a_level_beyond_its_own_support_stops_the_broker() -> None:
    controller, published = Controller(), Published()
    controller.snapshot = snapshot_of(image_with("a").replay([LATER_LEVEL]), 50)
    loader = loader_of(Controllers(controller), published)
    with pytest.raises(UnsupportedFeatureLevel, match=LATER):
        await asyncio.wait_for(loader.run(), 60)
    assert published.steps == []


def test_a_snapshot_of_its_own_of_a_level_beyond_its_support_is_not_used() -> None:
    loader = loader_of(Controllers(Controller()), Published())
    with pytest.raises(UnsupportedFeatureLevel, match=LATER):
        loader.start_from(LoadedImage(image=image_with("a").replay([LATER_LEVEL]), index=40, term=2))
    assert loader.current_image().index == 0
