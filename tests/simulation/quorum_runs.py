"""Random runs of a simulated quorum: faults of every kind, then none, when it must make progress and agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

import structlog

from tests.simulation.quorum_cluster import Cluster, Shape, open_cluster
from tests.simulation.quorum_invariants import Invariant, Violation
from tests.simulation.quorum_network import Weather
from tests.support.disks.sim_content import CrashMode, SyncFailure

log = structlog.get_logger()

FAULTS_S = 8.0
"""Virtual time during which faults happen in one run."""

FAULT_PAUSE_S_MAX = 0.6
DOWN_S_MAX = 1.5
HEAL_LIMIT_S = 30.0


@dataclass(slots=True)
class Tally:
    """Counts of one run, or of many."""

    seeds: int = 0
    virtual_s: float = 0.0
    events: int = 0
    faults: int = 0
    deaths: int = 0
    terms: int = 0
    committed: int = 0
    acknowledged: int = 0
    installed: int = 0
    directories_lost: int = 0
    heal_s_max: float = 0.0
    fingerprint: str = ""
    """Equal for two runs that are the same."""

    def add(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.virtual_s += other.virtual_s
        self.events += other.events
        self.faults += other.faults
        self.deaths += other.deaths
        self.terms += other.terms
        self.committed += other.committed
        self.acknowledged += other.acknowledged
        self.installed += other.installed
        self.directories_lost += other.directories_lost
        self.heal_s_max = max(self.heal_s_max, other.heal_s_max)

    def __str__(self) -> str:
        return (
            f"{self.seeds} seeds: {self.virtual_s:.0f} virtual s, {self.events} events, {self.faults} faults, "
            f"{self.deaths} deaths of voters, {self.terms} leaderships, {self.committed} entries committed, "
            f"{self.acknowledged} acknowledged, {self.installed} snapshots installed, "
            f"{self.directories_lost} directories lost; "
            f"healed within {self.heal_s_max:.2f} s"
        )


def shape_of(random: Random) -> Shape:
    return Shape(
        voter_count=random.choice([3, 3, 5]),
        append_batch_bytes=random.choice([300, 1000, 1 << 20]),
        clock_drift=random.choice([0.0, 0.02, 0.2]),
        payload_bytes_max=random.choice([20, 200]),
        pause_s_max=random.choice([0.01, 0.1, 0.3]),
        clients=random.choice([1, 2, 6]),
        link_bytes_per_s=random.choice([0, 0, 50_000]),
        segment_bytes=random.choice([400, 2_000, 1 << 20]),
        disk_s_max=random.choice([0.0, 0.0, 0.001, 0.005, 0.03]),
        entries_between_snapshots=random.choice([0, 4, 15, 50]),
    )


def run(seed: int, faults_s: float = FAULTS_S, *, lost_directories: bool = False) -> Tally:
    """Run one seed; with `lost_directories`, voters lose them, one after the other. Raises Violation."""
    random = Random(seed)
    with open_cluster(random, shape_of(random)) as cluster:
        nemesis = _Nemesis(cluster, random, lost_directories=lost_directories)
        cluster.start_all()
        if lost_directories:
            nemesis.disturb_formation()
        nemesis.rage(faults_s)
        heal_s = heal(cluster)
        history = cluster.history
        return Tally(
            seeds=1,
            virtual_s=cluster.loop.now_s,
            events=cluster.loop.callbacks_run,
            faults=nemesis.faults,
            deaths=nemesis.deaths,
            terms=len(history.leaders),
            committed=len(history.committed),
            acknowledged=history.acknowledged_count,
            installed=history.installed_count,
            directories_lost=history.directories_lost,
            heal_s_max=heal_s,
            fingerprint=history.fingerprint(),
        )


def notices(invariant: Invariant, seeds: Iterable[int], words: str = "", *, lost_directories: bool = False) -> bool:
    """Return whether one of the seeds breaks this invariant, with these words in its message.

    A weakened quorum may also fail in another way. That is ignored: it does not prove that the removed guard is needed.
    """
    for seed in seeds:
        try:
            run(seed, lost_directories=lost_directories)
        except Violation as violation:
            if violation.invariant is invariant and words in str(violation):
                return True
        except Exception as error:  # noqa: BLE001  A weakened quorum may fail in any way.
            log.debug("seed ended in another way", seed=seed, error=repr(error))
    return False


def heal(cluster: Cluster) -> float:
    """End all faults: within 30 s a new proposal is acknowledged, and all voters are equal.

    Return how many seconds it took. Raises Violation.
    """
    cluster.network.heal()
    for disk in cluster.disks.values():
        disk.stop_at = None
    cluster.start_all()
    for voter in cluster.voters.values():
        voter.life.frozen_until_s = 0.0
    began_s, acknowledged = cluster.loop.now_s, cluster.history.acknowledged_count
    if not cluster.run_until(lambda: cluster.history.acknowledged_count > acknowledged, HEAL_LIMIT_S):
        raise Violation(Invariant.PEACE_HEALS, f"nothing is acknowledged {HEAL_LIMIT_S:g} s after the last fault")
    healed_s = cluster.loop.now_s - began_s
    cluster.is_quiet = True
    if not cluster.run_until(cluster.are_equal, HEAL_LIMIT_S):
        raise Violation(Invariant.PEACE_HEALS, f"the voters are not equal {HEAL_LIMIT_S:g} s after the last fault")
    cluster.history.check_logs()
    cluster.history.check_end()
    return healed_s


class _Nemesis:
    """Injects faults, several at a time; killed voters restart, and the network heals."""

    def __init__(self, cluster: Cluster, random: Random, *, lost_directories: bool = False) -> None:
        self._lost_directories = lost_directories
        self.faults = 0
        self.deaths = 0
        self._cluster = cluster
        self._random = random
        self._raging = True
        cluster.on_death = self._mourn
        self._choices, self._weights = zip(*self._weighted_faults(), strict=True)

    def rage(self, duration_s: float) -> None:
        end_s = self._cluster.loop.now_s + duration_s
        while self._cluster.loop.now_s < end_s:
            self._cluster.run_for(self._random.uniform(0, FAULT_PAUSE_S_MAX))
            self.faults += 1
            self._random.choices(self._choices, self._weights)[0]()
        self._raging = False

    def _weighted_faults(self) -> list[tuple[Callable[[], object], int]]:
        return [
            (self._kill_one, 4),
            (self._kill_leader, 3),
            (self._cut_power_soon, 6),
            (self._cut_power_of_all, 1),
            (self._kill_all, 1),
            (self._fail_a_sync, 1),
            (self._freeze_one, 3),
            (self._isolate_one, 3),
            (self._isolate_leader, 3),
            (self._split, 2),
            (self._make_one_way, 2),
            (self._deafen_one, 2),
            (self._silence_one, 1),
            (self._make_ring, 1),
            (self._make_bad_weather, 4),
            (self._cluster.network.heal, 8),
            *([(self._lose_a_directory, 8)] if self._lost_directories else []),
        ]

    def disturb_formation(self) -> None:
        """In every other run, lose a directory and break the network while the voters form their quorum."""
        if self._random.random() < 0.5:
            return
        breaks: list[Callable[[], None]] = [self._make_bad_weather, self._isolate_one, self._make_one_way]
        if self._random.random() < 0.75:
            self._random.choice(breaks)()
        self._cluster.run_for(self._random.uniform(0, 0.12))
        self.faults += 1
        victim = self._random.choice(self._cluster.node_ids)
        self._cluster.lose_directory(victim)

    # --- processes and machines ------------------------------------------------------------------------------------

    def _victim(self) -> int | None:
        return self._random.choice(sorted(self._cluster.voters)) if self._cluster.voters else None

    def _kill_one(self) -> None:
        self._kill(self._victim(), self._random.choice(list(CrashMode)))

    def _kill_leader(self) -> None:
        leader = self._cluster.leader()
        self._kill(None if leader is None else leader.life.node_id, self._random.choice(list(CrashMode)))

    def _kill(self, node_id: int | None, mode: CrashMode) -> None:
        if node_id is not None:
            self._cluster.kill(node_id, mode)
            self._mourn(node_id)

    def _kill_all(self) -> None:
        for node_id in sorted(self._cluster.voters):
            self._kill(node_id, CrashMode.KEEP)

    def _cut_power_of_all(self) -> None:
        for node_id in sorted(self._cluster.voters):
            self._kill(node_id, self._random.choice(self._cluster.power_losses))

    def _cut_power_soon(self) -> None:
        """Cut the power in the middle of a write or a sync."""
        node_id = self._victim()
        if node_id is not None:
            disk = self._cluster.disks[node_id]
            disk.stop_at = disk.points + self._random.randint(1, 8)

    def _fail_a_sync(self) -> None:
        node_id = self._victim()
        if node_id is not None:
            self._cluster.tolerated_failures.add(node_id)
            self._cluster.disks[node_id].fail_next_sync(
                self._random.choice(list(SyncFailure)), self._random.choice(["", ".journal", ".tmp"])
            )

    def _freeze_one(self) -> None:
        node_id = self._victim()
        if node_id is not None:
            self._cluster.freeze(node_id, self._random.uniform(0.05, 2.0))

    def _lose_a_directory(self) -> None:
        """Lose the directory of one voter, running or not; the next only after this voter counts again."""
        if self._cluster.may_lose_a_directory:
            self._cluster.lose_directory(self._random.choice(self._cluster.node_ids))

    def _mourn(self, node_id: int) -> None:
        self.deaths += 1
        self._cluster.tolerated_failures.discard(node_id)
        self._cluster.loop.call_later(
            self._random.uniform(0, DOWN_S_MAX), self._revive, node_id, context=self._cluster.context
        )

    def _revive(self, node_id: int) -> None:
        if node_id not in self._cluster.voters:
            self._cluster.start(node_id)

    # --- the network ---------------------------------------------------------------------------------------------

    def _isolate_one(self) -> None:
        self._cluster.network.isolate(self._random.choice(self._cluster.node_ids), self._cluster.node_ids)

    def _isolate_leader(self) -> None:
        leader = self._cluster.leader()
        if leader is not None:
            self._cluster.network.isolate(leader.life.node_id, self._cluster.node_ids)

    def _split(self) -> None:
        """Partition the voters into two halves."""
        nodes = list(self._cluster.node_ids)
        self._random.shuffle(nodes)
        half = self._random.randrange(1, len(nodes))
        for left in nodes[:half]:
            self._cluster.network.isolate(left, nodes[half:])

    def _make_one_way(self) -> None:
        """Partition some pairs in one direction only."""
        for sender in self._cluster.node_ids:
            for receiver in self._cluster.node_ids:
                if sender != receiver and self._random.random() < 0.3:
                    self._cluster.network.cuts.add((sender, receiver))

    def _deafen_one(self) -> None:
        """Drop all messages to one voter; its own arrive."""
        self._cluster.network.deafen(self._random.choice(self._cluster.node_ids), self._cluster.node_ids)

    def _silence_one(self) -> None:
        """Drop all messages of one voter; those to it arrive."""
        self._cluster.network.silence(self._random.choice(self._cluster.node_ids), self._cluster.node_ids)

    def _make_ring(self) -> None:
        """Connect each voter to its neighbours only: each sees a majority, and of five no two see the same one."""
        nodes = self._cluster.node_ids
        self._cluster.network.cuts.clear()
        for position, node in enumerate(nodes):
            neighbours = {node, nodes[position - 1], nodes[(position + 1) % len(nodes)]}
            self._cluster.network.isolate(node, [other for other in nodes if other not in neighbours])

    def _make_bad_weather(self) -> None:
        random = self._random
        self._cluster.network.weather = Weather(
            delay_s_max=random.choice([0.005, 0.05, 0.3]),
            loss=random.choice([0.0, 0.05, 0.3]),
            repetition=random.choice([0.0, 0.2]),
            straggling=random.choice([0.0, 0.1]),
        )
