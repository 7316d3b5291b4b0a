"""A simulated partition that only grows: no record is ever deleted, and every election is clean."""

from __future__ import annotations

from random import Random

from kraft.model.ids import BrokerId, Offset
from kraft.replication.effects import (
    AdvanceLogStart,
    AppendRecords,
    FollowerEffect,
    RestartAt,
    Retry,
    SetHighWatermark,
    TruncatedBelowHighWatermark,
    TruncateTo,
    WaitForMetadata,
)
from tests.simulation.replication_machines import CORRECT, Machines, Replica, Variant, Violation, require
from tests.simulation.replication_model import BROKERS, MemoryLog, Record


class World(Machines[MemoryLog]):
    """Brokers, controller and network, and every record that was ever exposed as committed."""

    def __init__(self, variant: Variant = CORRECT, min_insync_replicas: int = 2) -> None:
        self.exposed: list[Record] = []
        self.exposed_in_epoch: dict[int, int] = {}
        super().__init__(variant, min_insync_replicas)

    def new_log(self) -> MemoryLog:
        return MemoryLog()

    def crash(self, broker: BrokerId, kept_end: int = 0) -> None:
        """Cut the broker's power: of the unsynced tail only records below `kept_end` survive."""
        replica = self.replicas[broker]
        replica.alive = False
        replica.machine = None
        replica.log.lose_power(kept_end)
        self.alter_requests[broker].clear()
        self.check()

    def crash_randomly(self, broker: BrokerId, random: Random) -> None:
        self.crash(broker, kept_end=random.randrange(self.replicas[broker].log.log_end_offset + 1))

    # --- invariants --------------------------------------------------------------------------------------------

    def check(self) -> None:
        state = self.controller.state
        require(state.leader is None or state.leader in state.isr, "I7: the leader is in the ISR")
        committed_end = len(self.exposed)
        for member in state.isr:
            # Exposed records are on the disk of every replica that may be elected (I4, I6).
            log = self.replicas[member].log
            if log.durable_end < committed_end or log.records[:committed_end] != self.exposed:
                raise Violation(
                    f"I4: in-sync {member} has {log.records}, {log.durable_end} synced; exposed are {self.exposed}"
                )
        for replica in self.replicas.values():
            leader = replica.leader
            if leader is not None:
                require(leader.high_watermark <= len(replica.log.records), f"I6: on {replica.broker_id}")
        logs = [replica.log.records for replica in self.replicas.values()]
        for one, other in ((0, 1), (0, 2), (1, 2)):
            check_log_matching(logs[one], logs[other])

    def unrest(self) -> str:
        isr = self.controller.state.isr
        if set(isr) != set(BROKERS):
            return f"the ISR is {isr}"
        first, *others = [replica.log.records for replica in self.replicas.values()]
        if any(other != first for other in others):
            return "the replicas differ"
        return "" if self.exposed == first else f"{len(self.exposed)} of {len(first)} records are committed"

    def _commit(self, replica: Replica[MemoryLog], high_watermark: int, leader_epoch: int) -> None:
        require(
            high_watermark >= self.exposed_in_epoch.get(leader_epoch, 0),
            f"I5: high watermark went down in {leader_epoch}",
        )
        self.exposed_in_epoch[leader_epoch] = high_watermark
        self._expose_records(replica.log.records[:high_watermark])

    def _expose_records(self, committed: list[Record]) -> None:
        shared = min(len(committed), len(self.exposed))
        if committed[:shared] != self.exposed[:shared]:
            raise Violation(f"I4: {committed} look committed, but exposed are {self.exposed}")
        for offset in range(len(self.exposed), len(committed)):
            copies = sum(
                replica.log.durable_end > offset and replica.log.records[offset] == committed[offset]
                for replica in self.replicas.values()
            )
            require(copies >= self.min_insync_replicas, f"I14: offset {offset} is on {copies} disks")
            self.exposed.append(committed[offset])

    def _run_follower(self, replica: Replica[MemoryLog], effects: list[FollowerEffect]) -> None:
        follower = replica.follower
        assert follower is not None
        log = replica.log
        for effect in effects:
            match effect:
                case AppendRecords(records=records):
                    if not log.append_as_follower(bytes(records)):
                        follower.append_refused()
                case TruncateTo(offset=offset):
                    self._truncate(replica, offset)
                    self._run_follower(replica, follower.truncated(Offset(log.log_end_offset), Offset(log.durable_end)))
                case SetHighWatermark(high_watermark=high_watermark):
                    self._expose_records(log.records[:high_watermark])
                case TruncatedBelowHighWatermark() | RestartAt():
                    raise Violation(f"I9: {effect} with clean elections only")
                case AdvanceLogStart():
                    raise Violation(f"{effect} where no leader's log start ever moves")
                case Retry() | WaitForMetadata():
                    pass

    def _truncate(self, replica: Replica[MemoryLog], offset: int) -> None:
        # A replica outside the ISR may truncate a record that it got from one leader and that another leader committed,
        # for instance if it learns late of the leader in between. Its copy was not counted, and it fetches it again.
        if replica.broker_id in self.controller.state.isr:
            lost = [record for record in replica.log.records[offset : len(self.exposed)] if record in self.exposed]
            require(not lost, f"I9: committed records {lost} are truncated")
        replica.log.truncate_to(offset)


def check_log_matching(one: list[Record], other: list[Record]) -> None:
    """I3: if two logs have a record of the same epoch at the same offset, they are equal up to it."""
    for offset in range(min(len(one), len(other)) - 1, -1, -1):
        if one[offset][0] == other[offset][0]:
            if one[: offset + 1] != other[: offset + 1]:
                raise Violation(f"I3: {one} and {other} part below {offset + 1}")
            return
