"""A group whose clients change from one protocol to the other, in any order: no partition is read by two of them."""

from __future__ import annotations

from random import Random

import pytest

from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.groups.settings import GroupShardSettings
from tests.unit.coordinator.groups.coordinator import GROUP, Coordinator, compacted, replayed
from tests.unit.coordinator.groups.migrating_clients import TOPIC, ClassicClient, Client, ConsumerClient

STEPS = 250
PARTITIONS = 5


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        settings = GroupShardSettings(
            classic=ClassicSettings(initial_rebalance_delay_ms=100, new_member_join_timeout_ms=30_000),
            consumer=GroupSettings(assigned_at_once_max=0 if seed % 2 else 1_000, partitions_per_slice=2),
        )
        # A static member whose first two responses are lost is refused until its session ends: a run makes that likely.
        self._has_static_members = seed % 2 == 0
        self.shard = Coordinator(settings, **{TOPIC: PARTITIONS})
        self.clients: list[Client] = []
        self.cooperative = self.random.random() < 0.7
        self._names = 0

    def act(self) -> None:
        what = self.random.random()
        if what < 0.005:
            self.fail_over()
        elif (what < 0.03 and len(self.clients) < 5) or not self.clients:
            self.start(is_classic=self.random.random() < 0.5)
        elif what < 0.05:
            self.stop(self.random.choice(self.clients))
        elif what < 0.07:
            self.restart(self.random.choice(self.clients))
        elif what < 0.09:
            self.random.choice(self.clients).miss()
        else:
            self.random.choice(self.clients).step()
        self.shard.advance(self.random.randrange(100))
        if self.shard.work and self.random.random() < 0.3:
            self.shard.finish_work()
        self.check()

    def start(self, *, is_classic: bool) -> None:
        self._names += 1
        instance_id = f"instance-{self._names}" if self._has_static_members and self.random.random() < 0.3 else None
        self.clients.append(self._client(instance_id, is_classic=is_classic))

    def _client(self, instance_id: str | None, *, is_classic: bool) -> Client:
        name = f"client-{self._names}"
        if is_classic:
            return ClassicClient(self.shard, name, instance_id, cooperative=self.cooperative)
        return ConsumerClient(self.shard, name, instance_id)

    def restart(self, client: Client) -> None:
        """Start a static member again, maybe with the other protocol."""
        if client.instance_id is not None:
            client.pause()
            self._names += 1
            restarted = self._client(client.instance_id, is_classic=self.random.random() < 0.5)
            self.clients[self.clients.index(client)] = restarted

    def fail_over(self) -> None:
        """Another broker goes on: it knows what was recorded, and nobody gets a response to a waiting request."""
        self.shard.load()
        for client in self.clients:
            client.miss()

    def stop(self, client: Client) -> None:
        client.leave()
        self.clients.remove(client)

    def check(self) -> None:
        read = [partition for client in self.clients for partition in client.owned]
        assert len(read) == len(set(read)), {each.name: each.owned for each in self.clients}

    def settle(self) -> None:
        """Let every client do what it has to, until all partitions are read and the group is stable."""
        if not self.clients:
            self.start(is_classic=True)
        for _ in range(200):
            for client in self.clients:
                client.step()
                self.check()
            self.shard.advance(1_000)
            if self.shard.work:
                self.shard.finish_work()
            if self._is_settled():
                return
        raise AssertionError({each.name: each.owned for each in self.clients})

    def _is_settled(self) -> bool:
        classic, consumer = self.shard.volatile.classic.get(GROUP), self.shard.groups.consumer.get(GROUP)
        state = consumer.state.value if consumer is not None else classic.state.value if classic is not None else ""
        return state == "Stable" and sum(len(client.owned) for client in self.clients) == PARTITIONS

    def migrate(self, *, to_classic: bool) -> None:
        """Replace the clients of the other protocol, one by one."""
        kind = ClassicClient if to_classic else ConsumerClient
        for client in [each for each in self.clients if not isinstance(each, kind)]:
            self.start(is_classic=to_classic)
            for _ in range(self.random.randrange(20)):
                self.random.choice(self.clients).step()
                self.check()
            self.stop(client)
        self.settle()


@pytest.mark.parametrize("seed", range(30))
def test_clients_of_both_protocols_share_the_partitions(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.act()
    world.settle()
    world.migrate(to_classic=False)
    assert not world.shard.groups.consumer[GROUP].classic_members
    assert GROUP not in world.shard.groups.classic
    world.migrate(to_classic=True)
    assert GROUP not in world.shard.groups.consumer
    assert GROUP in world.shard.groups.classic
    assert replayed(world.shard.log) == world.shard.groups
    assert replayed(compacted(world.shard.log)) == world.shard.groups
