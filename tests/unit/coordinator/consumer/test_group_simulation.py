"""A group and its members, on a network that loses and repeats: what holds after each step, and what is reached."""

from __future__ import annotations

from random import Random

import pytest

from kraft.coordinator.assignors.assignor import NO_PARTITIONS, Partition, Partitions
from kraft.coordinator.consumer.departures import decide_loaded
from kraft.coordinator.consumer.group import LEAVE_EPOCH, LEFT_STATIC_EPOCH, ConsumerGroupState
from kraft.coordinator.consumer.requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    RebalanceTimeout,
    SessionTimeout,
)
from kraft.model.errors import Refusal
from tests.unit.coordinator.consumer.coordinator import GROUP, Coordinator, compacted, image_of, replayed

TOPICS = ("a", "b", "c")
STEPS = 150

SEEDS = (37, 62, 64, 180, 230, 237)
"""In these, a heartbeat of an earlier epoch arrives that must not be believed."""


class Consumer:
    """A member's client: it takes partitions at once, and needs a while to give them up."""

    def __init__(self, member_id: str, instance_id: str | None, topics: frozenset[str]) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.topics = topics
        self.epoch = 0
        self.owned: Partitions = NO_PARTITIONS
        self.revoking: Partitions = NO_PARTITIONS
        self.was_removed = False
        """The group has removed the member. It learns it with its next heartbeat, and then owns nothing."""

        self.in_flight: ConsumerHeartbeat | None = None
        self._reported: Partitions | None = None
        self._subscribed: frozenset[str] | None = None
        self._is_full = True

    def send(self, *, epoch: int | None = None) -> ConsumerHeartbeat:
        is_full = self._is_full or self.epoch == 0 or self.topics != self._subscribed
        self.in_flight = ConsumerHeartbeat(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=60_000 if is_full else -1,
            topics=self.topics if is_full else None,
            owned=self.owned if is_full or self.owned != self._reported else None,
        )
        return self.in_flight

    def give_up(self) -> None:
        self.owned -= self.revoking
        self.revoking = NO_PARTITIONS

    def miss(self) -> None:
        """No response arrives: the next heartbeat is a full one."""
        self.in_flight = None
        self._is_full = True

    def receive(self, response: ConsumerHeartbeatResponse | Refusal) -> None:
        assert self.in_flight is not None
        sent, self.in_flight = self.in_flight, None
        if isinstance(response, Refusal):
            self.epoch, self.owned, self.revoking = 0, NO_PARTITIONS, NO_PARTITIONS
            self.was_removed = False
            self._is_full = True
            return
        self._reported = self._reported if sent.owned is None else sent.owned
        self._subscribed = self._subscribed if sent.topics is None else sent.topics
        self._is_full = False
        assert not self.was_removed or sent.member_epoch == 0, "a member that was removed goes on"
        self.was_removed = False
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned |= response.assignment
            self.revoking = self.owned - response.assignment


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.counts = {"a": 4, "b": 3}
        self.group = Coordinator(None, **self.counts)
        self.consumers: list[Consumer] = []
        self.late: list[tuple[Consumer, ConsumerHeartbeat]] = []
        self._names = 0
        self._epochs = (0, 0)
        self._member_epochs: dict[str, int] = {}

    # --- events ---

    def step(self) -> None:
        events = [self.start, self.stop, self.crash, self.expire, self.change, self.grow, self.fail_over, self.arrive]
        weights = [4, 2, 2, 3, 2, 1, 1, 3]
        if not self.consumers or self.random.random() < 0.15:
            self.random.choices(events, weights)[0]()
        else:
            self.talk(self.random.choice(self.consumers))
        self.check()

    def start(self) -> None:
        if len(self.consumers) < 6:
            self._names += 1
            instance_id = self.random.choice([None, None, "i1", "i2"])
            self.consumers.append(Consumer(f"m{self._names}", instance_id, self.some_topics()))

    def some_topics(self) -> frozenset[str]:
        return frozenset(self.random.sample(TOPICS, self.random.randint(0, len(TOPICS))))

    def stop(self) -> None:
        if self.consumers:
            consumer = self.random.choice(self.consumers)
            self.consumers.remove(consumer)
            is_static = consumer.instance_id is not None
            epoch = LEFT_STATIC_EPOCH if is_static and self.random.random() < 0.7 else LEAVE_EPOCH
            request = consumer.send(epoch=epoch)
            if self.random.random() < 0.8:
                self.group.decide(request)

    def crash(self) -> None:
        if self.consumers:
            self.consumers.remove(self.random.choice(self.consumers))

    def expire(self) -> None:
        keys = [key for key in self.group.timers if isinstance(key, SessionTimeout | RebalanceTimeout)]
        if keys:
            self.group.end(self.random.choice(sorted(keys, key=repr)))

    def change(self) -> None:
        if self.consumers:
            self.random.choice(self.consumers).topics = self.some_topics()

    def grow(self) -> None:
        topic = self.random.choice(TOPICS)
        self.counts[topic] = self.counts.get(topic, 0) + self.random.randint(1, 3)
        self.group.image = image_of(self.counts)

    def fail_over(self) -> None:
        log = self.group.log
        self.group.state = replayed(compacted(log) if self.random.random() < 0.5 else log)
        self.group.timers.clear()
        if self.group.state is not None:
            self.group.apply(decide_loaded(self.group.state, self.group.settings, self.group.context()))

    def arrive(self) -> None:
        """Deliver a heartbeat that was given up for lost, if its sender has entered another epoch since.

        Within one epoch the protocol relies on the connection: it has no way to tell an older heartbeat.
        """
        for consumer, request in list(self.late):
            if 0 <= request.member_epoch < consumer.epoch:
                self.late.remove((consumer, request))
                self.group.decide(request)

    def talk(self, consumer: Consumer) -> None:
        """Bring a consumer one step further: it gives up partitions, or sends, or a message arrives, twice, or not."""
        chance = self.random.random()
        if consumer.in_flight is None:
            if consumer.revoking and chance < 0.6:
                consumer.give_up()
            else:
                consumer.send()
        elif chance < 0.1:
            self.late.append((consumer, consumer.in_flight))
            consumer.miss()
        elif chance < 0.2:
            self.group.decide(consumer.in_flight)
            consumer.miss()
        else:
            request = consumer.in_flight
            consumer.receive(self.group.decide(request))
            if chance < 0.3:
                self.group.decide(request)

    # --- what holds after each step ---

    def check(self) -> None:
        state = self.group.state
        if state is None:
            return
        self.group.owners()
        assert (state.epoch, state.assignment_epoch) >= self._epochs
        assert state.epoch >= state.assignment_epoch
        self._epochs = (state.epoch, state.assignment_epoch)
        epochs = {member_id: member.epoch for member_id, member in state.members.items()}
        for member_id, epoch in epochs.items():
            before = self._member_epochs.get(member_id, 0)
            assert epoch >= before or epoch == LEFT_STATIC_EPOCH
        removed = self._member_epochs.keys() - epochs.keys()
        self._member_epochs = epochs
        owners: dict[Partition, str] = {}
        for consumer in self.consumers:
            consumer.was_removed |= consumer.member_id in removed
            if consumer.member_id in epochs and not consumer.was_removed:
                assert consumer.owned <= state.members[consumer.member_id].owned, consumer.member_id
                for partition in consumer.owned:
                    assert owners.setdefault(partition, consumer.member_id) == consumer.member_id

    def check_log(self) -> None:
        assert replayed(self.group.log) == self.group.state
        assert replayed(compacted(self.group.log)) == self.group.state

    # --- what is reached ---

    def heal(self) -> None:
        alive = {consumer.member_id for consumer in self.consumers}
        for key in sorted(self.group.timers, key=repr):
            if isinstance(key, SessionTimeout) and key.member_id not in alive:
                self.group.end(key)
        for consumer in self.consumers:
            # The response to a heartbeat that arrived late, and what it assigned, was lost.
            consumer.miss()
        for _ in range(12):
            for consumer in self.consumers:
                consumer.give_up()
                response = self.group.decide(consumer.send())
                consumer.receive(response)
                session = SessionTimeout(GROUP, consumer.member_id)
                if isinstance(response, Refusal) and session in self.group.timers:
                    # A refused heartbeat does not start the session again, so that it ends.
                    self.group.end(session)
                self.check()

    def check_settled(self) -> None:
        instances = [consumer.instance_id for consumer in self.consumers if consumer.instance_id is not None]
        state = self.group.group
        assert state.state is (ConsumerGroupState.STABLE if self.consumers else ConsumerGroupState.EMPTY)
        if len(set(instances)) == len(instances):
            assert state.members.keys() == {consumer.member_id for consumer in self.consumers}
        in_group = [consumer for consumer in self.consumers if consumer.member_id in state.members]
        for consumer in in_group:
            assert consumer.owned == state.members[consumer.member_id].assigned
        subscribed = {topic for consumer in in_group for topic in consumer.topics}
        expected = sum(count for topic, count in self.counts.items() if topic in subscribed)
        assert sum(len(consumer.owned) for consumer in in_group) == expected


@pytest.mark.parametrize("seed", [*range(30), *SEEDS])
def test_no_partition_ever_has_two_owners_and_in_the_end_each_has_one(seed: int) -> None:
    world = World(seed)
    world.start()
    for number in range(STEPS):
        world.step()
        if number % 15 == 0:
            world.check_log()
    if not world.consumers:
        world.start()
    world.heal()
    world.check_settled()
    world.check_log()
