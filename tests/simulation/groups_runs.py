"""Random runs of simulated groups: faults of every kind, then none, when each partition must get an owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

import structlog

from kraft.model.errors import ErrorCode, Refusal
from tests.simulation.groups_clients import ClassicClient, Client, ConsumerClient
from tests.simulation.groups_history import Invariant, Violation
from tests.simulation.groups_host import Host
from tests.simulation.groups_world import World
from tests.simulation.noticing import is_noticed

log = structlog.get_logger()

STEPS: Final = 1_500
"""Random events in a run of a seed."""

TURNS_MS: Final = (0, 5, 50, 300)
"""Times between two timers that are due together, as long as those between two events."""

CLIENTS_MAX: Final = 9
HEAL_ROUNDS: Final = 150
HEAL_ROUNDS_MIN: Final = 15
"""In these, the sessions of all who are gone end."""


GROUPS: Final[dict[str, tuple[type[Client], ...]]] = {
    "classic": (ClassicClient,),
    "consumer": (ConsumerClient,),
    "either": (ClassicClient, ConsumerClient),
}
"""The protocols of the members of each group."""

_APPEND_FAILURES: Final = (
    Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "too few replicas"),
    Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk has failed"),
)


@dataclass(slots=True)
class Tally:
    """Counts of one run, or of many."""

    seeds: int = 0
    commits: int = 0
    acknowledged: int = 0
    generations: int = 0
    deletions: int = 0
    elections: int = 0
    fenced: int = 0
    assignments: int = 0
    late_assignments: int = 0
    healed_rounds_max: int = 0
    fingerprint: str = ""
    """Equal for two runs that are the same."""

    def add(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.commits += other.commits
        self.acknowledged += other.acknowledged
        self.generations += other.generations
        self.deletions += other.deletions
        self.elections += other.elections
        self.fenced += other.fenced
        self.assignments += other.assignments
        self.late_assignments += other.late_assignments
        self.healed_rounds_max = max(self.healed_rounds_max, other.healed_rounds_max)

    def __str__(self) -> str:
        return (
            f"{self.seeds} seeds: {self.commits:,} offsets committed, {self.acknowledged:,} acknowledged, "
            f"{self.deletions:,} deleted, {self.generations:,} generations, {self.elections:,} elections, "
            f"{self.assignments:,} assignments beside the shard, {self.late_assignments:,} of them late, "
            f"{self.fenced:,} processes fenced; healed within {self.healed_rounds_max} rounds"
        )


def run(seed: int, steps: int = STEPS, *, in_turns: bool = False) -> Tally:
    """Run one seed. Raises Violation.

    `in_turns` lets other events happen between the timers that are due together, and between those of a load.
    """
    random, pauses = Random(seed), Random(f"turns {seed}")
    world = World(random, (lambda: pauses.choice(TURNS_MS)) if in_turns else lambda: 0)
    chance = _Chance(world, random)
    choices, weights = zip(*chance.weighted_events(), strict=True)
    for happen in random.choices(choices, weights, k=steps):
        world.advance(random.randrange(40))
        happen()
    rounds = heal(world)
    history = world.history
    return Tally(
        seeds=1,
        commits=history.commits,
        acknowledged=history.acknowledged,
        generations=history.generations,
        deletions=history.deletions,
        elections=world.leader_epoch,
        fenced=world.fenced,
        assignments=history.assignments,
        late_assignments=history.late_assignments,
        healed_rounds_max=rounds,
        fingerprint=repr(world.truth),
    )


def notices(invariant: Invariant, seeds: Iterable[int]) -> bool:
    """Return whether one of the seeds breaks this invariant."""
    return is_noticed(run, lambda error: isinstance(error, Violation) and error.invariant is invariant, seeds)


class _Chance:
    """What may happen next. An event that is not possible now does nothing."""

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random

    def weighted_events(self) -> list[tuple[Callable[[], None], int]]:
        return [
            (self._step, 300),
            (self._deliver, 400),
            (self._write, 120),
            (self._replicate, 120),
            (self._finish_load, 60),
            (self._work, 30),
            (self._start, 30),
            (self._kill, 3),
            (self._leave, 5),
            (self._stop_waiting, 20),
            (self._lose, 8),
            (self._repeat, 40),
            (self._deliver_late, 40),
            (self._fail_append, 4),
            (self._refuse_appends, 2),
            (self._accept_appends, 15),
            (self._elect, 3),
            (self._crash, 1),
            (self._elect_again, 15),
            (self._resign, 8),
            (self._freeze, 2),
            (self._add_partition, 1),
            (self._change_topics, 3),
            (self._rejoin, 3),
            (self._sleep, 1),
            (self._administer, 5),
        ]

    # --- clients -----------------------------------------------------------------------------------------------------

    def _client(self) -> Client | None:
        return self._random.choice(self._world.clients) if self._world.clients else None

    def _step(self) -> None:
        if (client := self._client()) is not None:
            self._world.step(client)

    def _start(self) -> None:
        if len(self._world.clients) < CLIENTS_MAX:
            group_id = self._random.choice(list(GROUPS))
            protocol = self._random.choice(GROUPS[group_id])
            instance_id = self._random.choice([None, None, "i", "j"])
            topics = frozenset({"orders", "parcels"}) if protocol is ClassicClient else self._topics()
            self._world.start(protocol, group_id, instance_id, topics)

    def _topics(self) -> frozenset[str]:
        return self._random.choice([frozenset({"orders"}), frozenset({"parcels"}), frozenset({"orders", "parcels"})])

    def _kill(self) -> None:
        if (client := self._client()) is not None:
            self._world.end(client)

    def _leave(self) -> None:
        if (client := self._client()) is not None:
            self._world.end(client, client.leave)

    def _stop_waiting(self) -> None:
        if (client := self._client()) is not None:
            client.stop_waiting()

    def _change_topics(self) -> None:
        client = self._client()
        if isinstance(client, ConsumerClient):
            client.topics = self._topics()

    def _rejoin(self) -> None:
        client = self._client()
        if isinstance(client, ClassicClient) and client.assigned is not None:
            client.stop_waiting()
            client.join_again()

    def _administer(self) -> None:
        group_id = self._random.choice(list(GROUPS))
        match self._random.randrange(3):
            case 0:
                self._world.delete_group(group_id)
            case 1:
                self._world.reset_offsets(group_id)
            case _:
                self._world.remove_static_member(group_id, "i")

    # --- the network -------------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        if self._world.network:
            self._world.deliver(self._random.choice(self._world.network))

    def _lose(self) -> None:
        if self._world.network:
            self._world.lose(self._random.choice(self._world.network))

    def _repeat(self) -> None:
        if self._world.network:
            self._world.repeat(self._random.choice(self._world.network))

    def _deliver_late(self) -> None:
        late = self._random.choice([self._world.late, self._world.late_commits])
        if late:
            self._world.deliver_late(self._random.choice(late))

    # --- coordinators ------------------------------------------------------------------------------------------------

    def _host(self) -> Host | None:
        awake = [host for host in self._world.hosts if host.frozen_until_ms <= self._world.now_ms]
        return self._random.choice(awake) if awake else None

    def _write(self) -> None:
        if (host := self._host()) is not None:
            self._world.write(host)

    def _fail_append(self) -> None:
        if (host := self._host()) is not None:
            self._world.write(host, self._random.choice(_APPEND_FAILURES))

    def _refuse_appends(self) -> None:
        """Let the log of a broker refuse appends for a while, as with too few in-sync replicas."""
        if (host := self._host()) is not None:
            host.refusal = self._random.choice(_APPEND_FAILURES)

    def _accept_appends(self) -> None:
        for host in self._world.hosts:
            host.refusal = None

    def _replicate(self) -> None:
        if self._world.leader is not None:
            self._world.replicate(self._random.randint(1, 4))

    def _finish_load(self) -> None:
        if (host := self._host()) is not None:
            self._world.finish_load(host)

    def _work(self) -> None:
        if (host := self._host()) is not None:
            self._world.go_on_with_work(host)

    def _elect(self) -> None:
        self._world.elect()

    def _crash(self) -> None:
        if (host := self._host()) is not None:
            self._world.crash(host)

    def _elect_again(self) -> None:
        if self._world.leader is None:
            self._world.elect()

    def _resign(self) -> None:
        if (host := self._host()) is not None:
            self._world.resign(host)

    def _freeze(self) -> None:
        if (host := self._host()) is not None:
            self._world.freeze(host, self._random.choice([200, 1_000, 4_000]))

    def _add_partition(self) -> None:
        self._world.add_partition(self._random.choice(list(self._world.counts)))

    def _sleep(self) -> None:
        self._world.advance(self._random.choice([500, 2_000, 5_000, 12_000]))


# --- after the faults ------------------------------------------------------------------------------------------------


def heal(world: World) -> int:
    """End all faults: soon each partition is read by one member, which commits. Return how many rounds it took."""
    if world.leader is None:
        world.elect()
    leader = world.leader
    assert leader is not None
    for host in [each for each in world.hosts if each is not leader]:
        world.resign(host)
    leader.frozen_until_ms, leader.refusal = 0, None
    for client in world.clients:
        client.stop_waiting()
    world.late.clear()
    world.late_commits.clear()
    _leave_one_process_of_each_member(world)
    rounds, unrest = 0, ""
    while unrest or rounds < HEAL_ROUNDS_MIN:
        if rounds == HEAL_ROUNDS:
            raise Violation(Invariant.PEACE_HEALS, f"{rounds} rounds without faults, and still: {unrest}")
        _round_without_faults(world, leader)
        rounds, unrest = rounds + 1, _unrest(world)
    return rounds


def _leave_one_process_of_each_member(world: World) -> None:
    """End the processes that share an instance id, and in each group those of the protocol of fewer members."""
    for group_id in GROUPS:
        of_group = [client for client in world.clients if client.group_id == group_id]
        protocols = [client.protocol for client in of_group]
        kept_protocol = max(protocols, key=protocols.count, default="")
        instances: set[str] = set()
        for client in of_group:
            if client.protocol != kept_protocol or client.instance_id in instances:
                world.end(client)
            elif client.instance_id is not None:
                instances.add(client.instance_id)


def _round_without_faults(world: World, leader: Host) -> None:
    world.advance(250)
    for client in list(world.clients):
        if isinstance(client, ClassicClient) and client.skips_assignment and client.assigned is not None:
            client.join_again()  # Partitions may be new that nobody has shared out.
        if client.is_alive:
            world.step(client)
    for _ in range(3):
        for message in list(world.network):
            if message in world.network:
                world.deliver(message)
        world.go_on_with_work(leader)
        world.write(leader)
        world.replicate()
        world.finish_load(leader)


def _unrest(world: World) -> str:
    """Return what has not settled yet; empty if everything has."""
    if world.fenced and any(client.is_fenced for client in world.clients):
        return "a process is fenced"
    for group_id in GROUPS:
        clients = [client for client in world.clients if client.group_id == group_id]
        held = [partition for client in clients for partition in client.holds(client.member_id)]
        topics = {topic for client in clients for topic in client.topics}
        wanted = [(topic, number) for topic in sorted(topics) for number in range(world.counts[topic])]
        if sorted(held) != wanted:
            return f"of {wanted}, {sorted(held)} are read in {group_id}"
        for client in clients:
            if client.holds(client.member_id) != client.positions.keys():
                return f"{client.member_id} has not fetched its offsets"
    return ""
