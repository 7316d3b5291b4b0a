"""Whatever brokers and operators ask for, in whatever order: the cluster's invariants hold after every decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.metadata.broker_decisions import (
    allocate_producer_ids,
    fence_broker,
    heartbeat,
    initialise_cluster,
    register_broker,
)
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage
from kraft.metadata.new_topics import new_topic
from kraft.metadata.partition_decisions import alter_partition, fail_replicas
from kraft.metadata.records import MetadataRecord
from kraft.metadata.topic_decisions import ControllerDefaults, create_topics
from kraft.metadata.topic_deletion import delete_topics
from kraft.model.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.model.alter_partition import AlterPartitionRequest, IsrMember
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fail_replicas import FailedReplica, FailReplicasRequest
from kraft.model.heartbeat import BrokerHeartbeatRequest
from kraft.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.create_topics import CreateTopicsRequest
from kraft.wire.schema.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.cluster_images import CLUSTER, registration

BROKERS = range(1, 5)
TOPICS = ["a", "b", "a.b", "a_b"]


class Cluster:
    """A controller that decides at random, and the history of what it decided."""

    def __init__(self, data: st.DataObject) -> None:
        self.records: list[MetadataRecord] = []
        self.image = EMPTY_IMAGE
        self.refused: set[ErrorCode] = set()
        self.leaders: dict[tuple[TopicId, int, LeaderEpoch], BrokerId] = {}
        self._data = data
        self._topics_made = 0
        self._failed: set[tuple[TopicId, int, BrokerId]] = set()
        """Replicas that were the last of their ISR when they failed; their broker is alive and does not lead."""
        self._is_failing = False
        self._commit(initialise_cluster(self.image, CLUSTER).records)
        for broker_id in BROKERS:
            self._commit(register_broker(self.image, registration(broker_id), session_is_alive=False).records)
            self._beat(BrokerId(broker_id), caught_up=True, wants_shutdown=False)

    def step(self) -> None:
        act: Callable[[], None] = self._data.draw(
            st.sampled_from(
                [
                    self.register,
                    self.beat,
                    self.fence,
                    self.create,
                    self.delete,
                    self.alter,
                    self.alter,
                    self.allocate,
                    self.fail,
                ]
            )
        )
        act()

    # --- what may be asked ---

    def register(self) -> None:
        request = registration(self._broker(), process=self._data.draw(st.integers(1, 3)))
        try:
            alive = self._data.draw(st.booleans())
            self._commit(register_broker(self.image, request, session_is_alive=alive).records)
        except Refusal as refusal:
            self.refused.add(refusal.error_code)

    def beat(self) -> None:
        caught_up, wants_shutdown = self._data.draw(st.sampled_from([(True, False), (False, False), (True, True)]))
        self._beat(self._broker(), caught_up=caught_up, wants_shutdown=wants_shutdown)

    def fence(self) -> None:
        broker_id = self._broker()
        self._commit(fence_broker(self.image, broker_id, self.image.brokers[broker_id].broker_epoch).records)

    def create(self) -> None:
        topic = new_topic(
            self._data.draw(st.sampled_from(TOPICS)),
            partitions=self._data.draw(st.integers(1, 3)),
            replication_factor=self._data.draw(st.integers(1, 4)),
        )
        self._topics_made += 1
        decision = create_topics(
            self.image,
            CreateTopicsRequest(topics=(topic,), timeout_ms=0),
            topic_ids=[UUID(int=self._topics_made)],
            placement_start=self._data.draw(st.integers(0, 20)),
            defaults=ControllerDefaults(),
        )
        (result,) = decision.response.topics
        assert bool(decision.records) == (result.error_code == ErrorCode.NONE)
        self._commit(decision.records)

    def delete(self) -> None:
        name = self._data.draw(st.sampled_from(TOPICS))
        state = DeleteTopicState(name=name, topic_id=ZERO_UUID)
        self._commit(delete_topics(self.image, DeleteTopicsRequest(topics=(state,), timeout_ms=0)).records)

    def alter(self) -> None:
        partitions = [(topic, state) for topic in self.image.topics.values() for state in topic.partitions.values()]
        if not partitions:
            return
        topic, state = self._data.draw(st.sampled_from(partitions))
        broker_id = self._data.draw(st.sampled_from([state.leader, state.leader, self._broker()]))
        request = AlterPartitionRequest(
            broker_id=broker_id,
            broker_epoch=self._broker_epoch(broker_id),
            topic_id=topic.topic_id,
            partition=state.partition,
            leader_epoch=LeaderEpoch(state.leader_epoch + self._rarely_off()),
            partition_epoch=PartitionEpoch(state.partition_epoch + self._rarely_off()),
            new_isr=[
                IsrMember(broker_id=member, broker_epoch=self._broker_epoch(member))
                for member in self._data.draw(st.permutations([*state.replicas, self._broker()]))[: self._isr_size()]
            ],
        )
        decision = alter_partition(self.image, request)
        self._commit(decision.records)
        if decision.response.error_code == ErrorCode.NONE:
            after = self.image.topics[topic.topic_id].partitions[state.partition]
            answer = decision.response
            assert (answer.leader_id, answer.leader_epoch) == (after.leader, after.leader_epoch)
            assert (answer.partition_epoch, answer.isr) == (after.partition_epoch, list(after.isr))

    def allocate(self) -> None:
        broker_id = self._broker()
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=self._broker_epoch(broker_id))
        try:
            decision = allocate_producer_ids(self.image, request)
        except Refusal as refusal:
            self.refused.add(refusal.error_code)
            return
        assert decision.response.first >= self.image.next_producer_id
        self._commit(decision.records)

    def fail(self) -> None:
        broker_id = self._broker()
        held = [(topic, state) for topic, state in self.image.partitions_of(broker_id)]
        request = FailReplicasRequest(
            broker_id=broker_id,
            broker_epoch=self._broker_epoch(broker_id),
            replicas=[
                FailedReplica(
                    topic_id=topic.topic_id,
                    partition=state.partition,
                    leader_epoch=LeaderEpoch(self._data.draw(st.integers(-1, state.leader_epoch + self._rarely_off()))),
                )
                for topic, state in held
                if self._data.draw(st.booleans())
            ],
        )
        try:
            decision = fail_replicas(self.image, request)
        except Refusal as refusal:
            self.refused.add(refusal.error_code)
            return
        self._is_failing = True
        self._failed |= {(failed.topic_id, failed.partition, broker_id) for failed in request.replicas}
        self._commit(decision.records)
        self._is_failing = False
        for failed in request.replicas:
            state = self.image.topics[failed.topic_id].partitions[failed.partition]
            assert state.leader != broker_id
            assert broker_id not in state.isr or state.isr == (broker_id,)
            assert state.leader_epoch > failed.leader_epoch
        assert not fail_replicas(self.image, request).records, "asking again changes nothing"

    # --- how it is drawn and committed ---

    def _broker(self) -> BrokerId:
        return BrokerId(self._data.draw(st.sampled_from(BROKERS)))

    def _broker_epoch(self, broker_id: BrokerId) -> BrokerEpoch:
        registered = self.image.broker(broker_id)
        return BrokerEpoch((registered.broker_epoch if registered else 0) + self._rarely_off())

    def _rarely_off(self) -> int:
        return self._data.draw(st.sampled_from([0] * 12 + [-1, 1]))

    def _isr_size(self) -> int:
        return self._data.draw(st.integers(0, 4))

    def _beat(self, broker_id: BrokerId, *, caught_up: bool, wants_shutdown: bool) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.image.brokers[broker_id].broker_epoch,
            metadata_index=int(caught_up),
            wants_shutdown=wants_shutdown,
        )
        decision = heartbeat(self.image, request, caught_up_from_index=1, committed_index=1)
        self._commit(decision.records)
        assert decision.response.is_fenced == self.image.brokers[broker_id].fenced
        if decision.response.may_stop:
            assert not any(state.leader == broker_id for _, state in self.image.partitions_of(broker_id))

    def _commit(self, records: Sequence[MetadataRecord]) -> None:
        before = self.image
        self.image = before.replay(records)
        self.records += records
        self._check(before)

    # --- what must hold ---

    def _check(self, before: MetadataImage) -> None:
        for topic in self.image.topics.values():
            earlier_topic = before.topics.get(topic.topic_id)
            for number, state in topic.partitions.items():
                self._check_one_leader_an_epoch(topic.topic_id, state)
                self._check_state(topic.topic_id, state)
                if earlier_topic is not None:
                    self._check_step(earlier_topic.partitions[number], state)
        assert self.image.next_broker_epoch >= before.next_broker_epoch
        assert self.image.next_producer_id >= before.next_producer_id

    def _check_one_leader_an_epoch(self, topic_id: TopicId, state: PartitionImage) -> None:
        known = self.leaders.setdefault((topic_id, state.partition, state.leader_epoch), state.leader)
        assert known == state.leader, f"brokers {known} and {state.leader} lead in one epoch: {state}"

    def _check_state(self, topic_id: TopicId, state: PartitionImage) -> None:
        assert state.isr, f"the ISR is empty: {state}"
        assert set(state.isr) <= set(state.replicas), f"the ISR exceeds the replicas: {state}"
        if state.has_leader:
            assert state.leader in state.isr, f"the leader is not in sync: {state}"
            assert self.image.is_alive(state.leader), f"the leader is fenced: {state}"
        else:
            unfailed = [one for one in state.isr if (topic_id, state.partition, one) not in self._failed]
            assert not any(map(self.image.is_active, unfailed)), f"somebody could lead: {state}"
        if any(not self.image.is_alive(member) for member in state.isr):
            assert len(state.isr) == 1, f"a fenced broker beside others in the ISR: {state}"

    def _check_step(self, earlier: PartitionImage, state: PartitionImage) -> None:
        assert state.leader_epoch >= earlier.leader_epoch
        assert state.leader_epoch > earlier.leader_epoch or state.leader == earlier.leader
        assert self._is_failing or state.leader_epoch == earlier.leader_epoch or state.leader != earlier.leader
        assert state.partition_epoch >= earlier.partition_epoch
        if state.partition_epoch == earlier.partition_epoch:
            assert state == earlier
        joined = set(state.isr) - set(earlier.isr)
        assert all(map(self.image.is_active, joined)), f"{joined} joined without being active: {state}"
        # Whoever leads next had everything that was acknowledged: it was in sync before.
        assert not state.has_leader or state.leader in earlier.isr


@settings(max_examples=150, deadline=None)
@given(data=st.data(), steps=st.integers(1, 40))
def test_random_commands_keep_the_invariants_and_replaying_all_records_gives_the_same_image(
    data: st.DataObject, steps: int
) -> None:
    cluster = Cluster(data)
    for _ in range(steps):
        cluster.step()
    assert EMPTY_IMAGE.replay(cluster.records) == cluster.image
    expected = {
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ErrorCode.STALE_BROKER_EPOCH,
        # A broker epoch from the future shows that the asked controller is behind.
        ErrorCode.NOT_CONTROLLER,
    }
    assert cluster.refused <= expected
