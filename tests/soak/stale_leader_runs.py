"""The active controller is paused, or cut off from the others, and gets requests: nothing stale takes effect."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from chaos.toxiproxy import find_or_build
from kraft.local import cluster_files
from kraft.metadata.image import MetadataImage
from kraft.testing import Cluster, NodeProcess
from tests.soak.loads.numbered_load import Contents
from tests.soak.loads.quorum_load import SETTINGS, VOTERS, Surroundings, log_events, surroundings
from tests.soak.loads.stale_leader_client import StaleLeaderClient
from tests.soak.loads.voter_links import VoterLinks, voters_behind_links

# Longer than an election takes (half a second to one) and than a broker's session lasts (3 s).
HOLD_S: Final = (3.5, 5.0)
CLAIM_S_MAX: Final = 2.5
"""A leader that hears no majority for a second steps down; the rest is for a busy machine."""

_REST_S: Final = (0.3, 1.0)
_ASKED_AFTERWARDS_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleLeader:
    """One leader of the quorum that was replaced without its knowledge."""

    node_id: int
    fault: str
    changed_s: float
    """Time from the fault to the next committed change."""

    claimed_s: float
    """Seconds for which it still claimed to lead: after the cut, or after it continued."""

    asked: int
    """Changes requested from it after it had been replaced."""

    acknowledged: int
    """Those that it acknowledged."""

    appeared: int
    """Those that any controller had at the end."""

    fencings: int
    """Brokers that it wanted to fence after missed sessions: when it continues, it has only its own clock."""

    fenced: int
    """Other brokers that it alone can have fenced."""

    healed_s: float
    """Time from the end of the fault until everything was in sync."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleLeaders:
    found: list[StaleLeader]
    contents: Contents
    acknowledged_changes: int
    change_failures: dict[str, int]


def pause_leader(
    *, times: int, seed: int, hold_s: tuple[float, float] = HOLD_S, tell: Callable[[StaleLeader], None]
) -> StaleLeaders:
    """SIGSTOP, and SIGCONT when another controller leads. Raises AssertionError when a stale decision had an effect."""
    with Cluster(nodes=VOTERS, overrides=SETTINGS) as cluster, surroundings(cluster) as running:
        return _Pauses(running, Random(seed), hold_s).go(times, tell)


def isolate_leader(
    *, times: int, seed: int, hold_s: tuple[float, float] = HOLD_S, tell: Callable[[StaleLeader], None]
) -> StaleLeaders:
    """Cut off from the other controllers and brokers, not from clients. Raises AssertionError as `pause_leader`.

    Raises ToxiproxyMissing where there is no Toxiproxy.
    """
    program = find_or_build()
    cluster = Cluster(nodes=VOTERS, overrides=SETTINGS)
    with voters_behind_links(cluster, program) as links, cluster, surroundings(cluster) as running:
        return _Isolations(running, Random(seed), hold_s, links).go(times, tell)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """Result of one fault; see StaleLeader."""

    fault: str
    changed_s: float
    claimed_s: float


class _Run(ABC):
    """One fault after the other on a cluster under load."""

    patience_s: float
    """Time that the stale leader has for a response."""

    def __init__(self, running: Surroundings, chance: Random, hold_s: tuple[float, float]) -> None:
        self.running = running
        self.chance = chance
        self._hold_s = hold_s

    @abstractmethod
    def strike(self, node: NodeProcess, client: StaleLeaderClient) -> _Course:
        """Make the active controller a stale leader, send requests to it, and end the fault."""

    def go(self, times: int, tell: Callable[[StaleLeader], None]) -> StaleLeaders:
        found: list[StaleLeader] = []
        for _ in range(times):
            # Faults come at random moments.
            time.sleep(self.chance.uniform(*_REST_S))
            found.append(self._once(len(found)))
            tell(found[-1])
        return StaleLeaders(
            found=found,
            contents=self.running.finish(),
            acknowledged_changes=self.running.changes.acknowledged,
            change_failures=dict(self.running.changes.failures),
        )

    def hold(self, since_s: float) -> None:
        """Returns when the fault has been in force for long enough."""
        time.sleep(max(0.0, since_s + self.chance.uniform(*self._hold_s) - time.monotonic()))

    def _once(self, number: int) -> StaleLeader:
        node, began_at = self.running.controller(), time.time()
        assert node.address is not None, "a controller without a broker"
        addresses = [_controller_address(self.running.cluster, node.node_id), node.address]
        name = f"stale-{number}"
        with StaleLeaderClient(
            node.node_id, *addresses, config_path=node.config_path, name=name, attempt_s=self.patience_s
        ) as client:
            client.connect()
            course = self.strike(node, client)
        mended_s = time.monotonic()
        self.running.wait_in_sync()
        healed_s = time.monotonic() - mended_s
        return _judged(
            StaleLeader(
                node_id=node.node_id,
                fault=course.fault,
                changed_s=course.changed_s,
                claimed_s=course.claimed_s,
                asked=client.asked,
                acknowledged=len(client.acknowledged),
                appeared=len(_appeared(self.running.check_metadata(), client)),
                fencings=len(_fencings([node], began_at)),
                fenced=len(self._fenced_by(node, began_at)),
                healed_s=healed_s,
            )
        )

    def _fenced_by(self, node: NodeProcess, since: float) -> set[int]:
        """Return the brokers that learned that they were fenced, where only that controller can have done it."""
        others = [other for other in self.running.cluster.nodes if other is not node]
        fenced = {
            other.node_id
            for other in others
            for event in log_events(other, since)
            if event["event"] == "broker fenced" and "reason" not in event
        }
        return fenced - _fencings(others, since)


class _Pauses(_Run):
    # Longer than any pause, so that what waits at the listener of a stopped process is answered when it goes on.
    patience_s = 10.0

    def strike(self, node: NodeProcess, client: StaleLeaderClient) -> _Course:
        node.pause()
        paused_s = time.monotonic()
        changed_s = self.running.changes.wait_for_change(paused_s)
        # Others lead by now. What it is asked from here on waits at its listener.
        client.begin()
        self.hold(paused_s)
        node.resume()
        resumed_s = time.monotonic()
        # It is asked as one that runs again, too: for as long as it may take itself for the leader.
        time.sleep(_ASKED_AFTERWARDS_S)
        client.end()
        return _Course(fault="paused", changed_s=changed_s, claimed_s=max(0.0, client.last_claim_s - resumed_s))


class _Isolations(_Run):
    patience_s = 3.0

    def __init__(self, running: Surroundings, chance: Random, hold_s: tuple[float, float], links: VoterLinks) -> None:
        super().__init__(running, chance, hold_s)
        self._links = links

    def strike(self, node: NodeProcess, client: StaleLeaderClient) -> _Course:
        silently = self.chance.random() < 0.5
        self._links.cut_off(node.node_id, silently=silently)
        cut_s = time.monotonic()
        client.begin()
        changed_s = self.running.changes.wait_for_change(cut_s)
        self.hold(cut_s)
        client.end()
        self._links.mend(node.node_id)
        return _Course(
            fault="silenced" if silently else "cut",
            changed_s=changed_s,
            claimed_s=max(0.0, client.last_claim_s - cut_s),
        )


def _judged(found: StaleLeader) -> StaleLeader:
    assert found.asked > 0, f"node {found.node_id} was not asked for anything, so nothing is shown"
    assert found.acknowledged == 0, f"{found.acknowledged} changes were acknowledged by a stale leader: {found}"
    assert found.appeared == 0, f"{found.appeared} changes of a stale leader appeared: {found}"
    assert found.fenced == 0, f"a stale leader fenced brokers: {found}"
    return found


def _appeared(image: MetadataImage, client: StaleLeaderClient) -> list[str]:
    names = {entity.name for subject in image.client_quotas for entity in subject}
    return [name for name in client.names() if name in names]


def _fencings(controllers: Sequence[NodeProcess], since: float) -> set[int]:
    """Return the brokers that these fenced, according to their logs. A controller names a reason, a broker does not."""
    return {
        event["broker"]
        for node in controllers
        for event in log_events(node, since)
        if event["event"] == "broker fenced" and "reason" in event
    }


def _controller_address(cluster: Cluster, node_id: int) -> str:
    (own,) = (config for config in cluster_files.read(cluster.directory) if config.node_id == node_id)
    return next(voter.address for voter in own.quorum.voters if voter.node_id == node_id)
