"""A simulated partition whose records are deleted and compacted, with transactions, restarts and unclean elections.

The logs are real ones on simulated disks. What is committed is a map: a record that was exposed stays on every in-sync
replica, unless its offset is below the log start, it was compacted, or an unclean election chose a log without it.
"""

from __future__ import annotations

from random import Random
from typing import Final

from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.log.format.record_batch import build_batch
from kraft.log.partition_log import PartitionLog
from kraft.model.errors import Refusal
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
from tests.simulation.kept_log import KeptLog, KeptRecord, keyed_record
from tests.simulation.replication_machines import CORRECT, Machines, Replica, Variant, Violation, require
from tests.simulation.replication_model import BROKERS, PartitionState
from tests.support.disks.sim_content import CrashMode
from tests.support.log.log_building import NOW_MS
from tests.support.log.transactional_log import COORDINATOR, VERIFIED

PRODUCERS: Final = (7, 8, 9)


class UpkeepWorld(Machines[KeptLog]):
    """Brokers, controller and network, and every record that was exposed as committed and not lost uncleanly."""

    def __init__(self, variant: Variant = CORRECT, min_insync_replicas: int = 2) -> None:
        self.exposed: dict[int, KeptRecord] = {}
        self.exposed_end = 0
        self.knows_all_exposed = True
        """False once a leader of an unclean election has compacted or deleted records that were not exposed."""
        self.deleted_to = 0
        """No log begins above: the largest log start by retention or deletion."""
        self.cleaned_to = 0
        self.unclean_epoch = 0
        """What a leader of an epoch before exposes is lost already."""
        self.awaits_unclean_leader = False
        """True until a replica that was elected uncleanly leads: it may still be truncated by an earlier leader."""
        self.unclean_elections = 0
        super().__init__(variant, min_insync_replicas)

    def new_log(self) -> KeptLog:
        return KeptLog()

    # --- transactions --------------------------------------------------------------------------------------------

    def write_in_transaction(self, broker: BrokerId, producer_id: int) -> None:
        """Append a batch of the producer's open transaction, or of its next one."""
        replica, leader = self.replicas[broker], self.replicas[broker].leader
        if leader is None or not replica.alive:
            return
        state = replica.log.log.producers.get(producer_id)
        self.next_value += 1
        batch = build_batch(
            [keyed_record("transactional", self.next_value)],
            producer_id=producer_id,
            producer_epoch=0 if state is None else state.epoch,
            base_sequence=0 if state is None else state.last_sequence + 1,
            transactional=True,
        )
        try:
            leader.check_produce(-1)
            replica.log.append_batch(leader.leader_epoch, batch, VERIFIED)
        except Refusal:
            return
        self._appended(replica)

    def end_transaction(self, broker: BrokerId, producer_id: int, kind: MarkerType, *, fences: bool) -> None:
        """Append a marker; one that fences the producer has the next producer epoch."""
        replica, leader = self.replicas[broker], self.replicas[broker].leader
        if leader is None or not replica.alive:
            return
        state = replica.log.log.producers.get(producer_id)
        epoch = (0 if state is None else state.epoch) + fences
        marker = build_marker(EndTransactionMarker(type=kind, coordinator_epoch=0), producer_id, epoch, NOW_MS)
        replica.log.append_batch(leader.leader_epoch, marker, COORDINATOR)
        self._appended(replica)

    def _appended(self, replica: Replica[KeptLog]) -> None:
        assert replica.leader is not None
        self._run_leader(replica, replica.leader.appended(Offset(replica.log.log_end_offset)))
        self.check()

    # --- upkeep --------------------------------------------------------------------------------------------------

    def apply_retention(self, broker: BrokerId, retention_bytes: int) -> None:
        replica = self.replicas[broker]
        if replica.alive and replica.machine is not None:
            replica.log.apply_retention(retention_bytes, replica.machine.high_watermark)
            self._log_start_moved(replica)

    def delete_records(self, broker: BrokerId, offset: int) -> None:
        replica = self.replicas[broker]
        if replica.alive and replica.leader is not None and offset <= replica.leader.high_watermark:
            replica.log.advance_log_start(offset)
            self._log_start_moved(replica)

    def _log_start_moved(self, replica: Replica[KeptLog]) -> None:
        start = Offset(replica.log.log_start_offset)
        self.deleted_to = max(self.deleted_to, start)
        if replica.leader is not None:
            replica.leader.log_start_advanced(start)
        # Retention may roll, which syncs, and no other sync reports it.
        self.sync(replica.broker_id)

    def roll(self, broker: BrokerId) -> None:
        if self.replicas[broker].alive:
            self.replicas[broker].log.roll()
            self.sync(broker)

    def continue_cleaning(self, broker: BrokerId) -> None:
        replica = self.replicas[broker]
        if replica.alive and replica.machine is not None:
            replica.log.continue_cleaning(replica.machine.high_watermark)
            self.cleaned_to = max(self.cleaned_to, replica.log.log.cleaned_end_offset)
            self.check()

    def remove_deleted(self, broker: BrokerId) -> None:
        if self.replicas[broker].alive:
            self.replicas[broker].log.remove_deleted()

    # --- stops and elections -------------------------------------------------------------------------------------

    def crash_randomly(self, broker: BrokerId, random: Random) -> None:
        replica = self.replicas[broker]
        if not replica.alive:
            return
        durable_end = replica.log.durable_end
        self._end_process(replica)
        replica.log.lose_power(random.choice(list(CrashMode)), random)
        require(replica.log.log_end_offset >= durable_end, f"I8: {broker} lost records that were synced")
        self.check()

    def stop(self, broker: BrokerId) -> None:
        """Stop the broker's process in an orderly way."""
        replica = self.replicas[broker]
        if replica.alive:
            self._end_process(replica)
            replica.log.stop_and_start()
            self.check()

    def _end_process(self, replica: Replica[KeptLog]) -> None:
        if replica.machine is not None:
            replica.checkpointed_high_watermark = replica.machine.high_watermark
        replica.alive = False
        replica.machine = None
        self.alter_requests[replica.broker_id].clear()

    def elect_uncleanly(self, broker: BrokerId) -> None:
        """Let a replica lead that is not in sync, after all that are were fenced."""
        controller = self.controller
        if broker in controller.state.isr or not self.replicas[broker].alive:
            return
        for member in controller.state.isr:
            controller.fence(member)
        controller.unfence(broker)
        controller.elect_uncleanly(broker)
        self.unclean_elections += 1
        self.unclean_epoch = controller.state.leader_epoch
        self.awaits_unclean_leader = True
        self.check()

    def _lead(self, replica: Replica[KeptLog], state: PartitionState) -> None:
        if self.awaits_unclean_leader and state.leader_epoch >= self.unclean_epoch:
            self.awaits_unclean_leader = False
            self._forget_what_is_lost(replica.log)
        super()._lead(replica, state)

    def _forget_what_is_lost(self, log: KeptLog) -> None:
        """Forget what was exposed and is not on the disk of an unclean leader, nor compacted or deleted there."""
        # Below a record that both have, all are the same; above the last one, it cannot be told what was compacted.
        agreed = max((o for o, record in self.exposed.items() if log.records.get(o) == record), default=-1)
        parted = min(agreed + 1, log.durable_end)
        # What was deleted at the beginning of that log may have been other records.
        self.knows_all_exposed = self.knows_all_exposed and (agreed >= 0 or log.log_start_offset == 0)
        self.exposed = {offset: record for offset, record in self.exposed.items() if offset < parted}
        self.exposed_end = max(min(self.exposed_end, parted), log.log_start_offset)

    # --- effects -------------------------------------------------------------------------------------------------

    def _commit(self, replica: Replica[KeptLog], high_watermark: int, leader_epoch: int) -> None:
        replica.log.log.transactions.high_watermark_advanced(Offset(high_watermark))
        if leader_epoch >= self.unclean_epoch and not self.awaits_unclean_leader:
            self._expose(replica.log, high_watermark)

    def _expose(self, log: KeptLog, high_watermark: int) -> None:
        for offset, record in log.records.items():
            known = self.exposed.get(offset)
            if offset < min(high_watermark, self.exposed_end) and known not in (None, record):
                raise Violation(f"I4: {record} looks committed at {offset}, but exposed is {known}")
        for offset in range(self.exposed_end, high_watermark):
            found = log.records.get(offset)
            if found is None:
                require(self.unclean_elections > 0, f"I4: committed is {offset}, which the leader never had")
                self.knows_all_exposed = False
                continue
            copies = sum(
                replica.log.durable_end > offset
                and (replica.log.records.get(offset) == found or replica.log.log_start_offset > offset)
                for replica in self.replicas.values()
            )
            require(copies >= self.min_insync_replicas, f"I14: offset {offset} is on {copies} disks")
            self.exposed[offset] = found
        self.exposed_end = max(self.exposed_end, high_watermark)

    def _run_follower(self, replica: Replica[KeptLog], effects: list[FollowerEffect]) -> None:
        follower, log = replica.follower, replica.log
        assert follower is not None
        for effect in effects:
            match effect:
                case AppendRecords(records=records):
                    require(log.append_as_follower(bytes(records)), f"rot: {replica.broker_id} refuses its leader")
                case TruncateTo(offset=offset):
                    log.truncate_to(offset)
                    follower.truncated(Offset(log.log_end_offset), Offset(log.durable_end))
                case RestartAt(offset=offset):
                    log.restart_at(offset)
                    follower.truncated(Offset(log.log_end_offset), Offset(log.durable_end))
                case SetHighWatermark(high_watermark=high_watermark):
                    self._commit(replica, high_watermark, follower.leader_epoch)
                case TruncatedBelowHighWatermark():
                    require(self.unclean_elections > 0, f"I9: {effect} with clean elections only")
                case AdvanceLogStart(offset=offset):
                    log.advance_log_start(offset)
                case Retry() | WaitForMetadata():
                    pass

    # --- invariants ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        state = self.controller.state
        require(state.leader is None or state.leader in state.isr, "I7: the leader is in the ISR")
        for member in () if self.awaits_unclean_leader else state.isr:
            self._check_in_sync(member, self.replicas[member].log)
        for replica in self.replicas.values():
            start, leader = replica.log.log_start_offset, replica.leader
            require(
                start <= self.deleted_to, f"{replica.broker_id} begins at {start}, deleted is up to {self.deleted_to}"
            )
            if leader is not None:
                require(leader.high_watermark <= replica.log.log_end_offset, f"I6: on {replica.broker_id}")
        for one, other in ((0, 1), (0, 2), (1, 2)):
            check_log_matching(self.replicas[BROKERS[one]].log, self.replicas[BROKERS[other]].log)

    def _check_in_sync(self, member: BrokerId, log: KeptLog) -> None:
        """Check that the replica, which may be elected, has on disk what was exposed (I4)."""
        require(log.durable_end >= self.exposed_end, f"I4: in-sync {member} ends at {log.durable_end}")
        newest = {record.key: offset for offset, record in sorted(self.exposed.items())}
        for offset, record in self.exposed.items():
            found = log.records.get(offset)
            if found == record or offset < log.log_start_offset:
                continue
            is_needed = newest[record.key] == offset and record.value is not None and record.producer_id < 0
            # After an unclean election, a replica may have compacted it for the sake of a later record that is lost.
            is_needed = is_needed and self.unclean_elections == 0
            if found is not None or offset >= self.cleaned_to or is_needed:
                raise Violation(f"I4: in-sync {member} has {found} at {offset}; exposed is {record}")

    def unrest(self) -> str:
        state = self.controller.state
        if set(state.isr) != set(BROKERS) or state.leader is None:
            return f"the ISR is {state.isr}"
        leader = self.replicas[state.leader]
        if leader.leader is None or leader.leader.high_watermark < leader.log.log_end_offset:
            return "not all is committed"
        for replica in self.replicas.values():
            if replica.machine is None or replica.machine.high_watermark < leader.log.log_end_offset:
                return f"{replica.broker_id} lags behind"
            if replica.log.log_start_offset < leader.log.log_start_offset:
                return f"{replica.broker_id} begins below its leader"
        return ""

    def check_healed(self) -> None:
        """Check that all replicas know the same transactions, and that no file counts as damaged."""
        leader = self.controller.state.leader
        assert leader is not None, "there is no unrest"
        # A leader does not report again what it knew to be committed before an unclean election.
        self._expose(self.replicas[leader].log, self.replicas[leader].log.log_end_offset)
        for replica in self.replicas.values():
            end = replica.log.log_end_offset
            require(
                end == self.exposed_end, f"{replica.broker_id} ends at {end}, committed is up to {self.exposed_end}"
            )
            self._check_transactions(replica.broker_id, replica.log)
            self._check_follows(replica, self.replicas[leader].log)
        for replica in self.replicas.values():
            if faults := replica.log.faults_when_closed():
                raise Violation(f"rot: {replica.broker_id} has {faults}")
            self._check_transactions(replica.broker_id, replica.log)
            self._check_follows(replica, self.replicas[leader].log)

    def _check_follows(self, replica: Replica[KeptLog], leader: KeptLog) -> None:
        """Check that a log has no open transaction that its leader lacks, and that both are read alike."""
        for producer_id in open_transactions(replica.log.log) - open_transactions(leader.log):
            begin = replica.log.log.producers[producer_id].transaction_start
            # A leader that lost power or began anew may have forgotten a transaction whose records are all deleted.
            is_deleted = begin is not None and begin < leader.log_start_offset
            require(
                is_deleted, f"open: {replica.broker_id} holds a transaction of {producer_id} open, its leader does not"
            )
        stable = min(replica.log.stable_end, leader.stable_end)
        shared = replica.log.records.keys() & leader.records.keys() & set(range(stable))
        differing = shared & (replica.log.read_committed() ^ leader.read_committed())
        require(not differing, f"outcome: {replica.broker_id} and its leader differ in {sorted(differing)}")

    def _check_transactions(self, broker: BrokerId, log: KeptLog) -> None:
        if not self.knows_all_exposed:
            return
        outcomes, undecided = self.outcomes()
        start, end, transactions = log.log.log_start_offset, log.log.log_end_offset, log.log.transactions
        known = open_transactions(log.log)
        for producer_id in known - set(undecided):
            raise Violation(f"open: {broker} holds a transaction of {producer_id} open that its leader does not have")
        for producer_id, offsets in undecided.items():
            # After an unclean election, a replica may have compacted a transaction whose marker is lost.
            is_kept = any(offset in log.records for offset in offsets)
            require(not is_kept or producer_id in known, f"open: {broker} lacks the transaction of {producer_id}")
        stable = transactions.last_stable_offset(end)
        firsts = [offsets[0] for offsets in undecided.values()]
        if all(first >= start for first in firsts):
            require(stable == min(firsts, default=end), f"open: {stable} of {end} is stable on {broker}: {firsts}")
        read = log.read_committed()
        for offset, is_committed in outcomes.items():
            record = self.exposed[offset]
            if offset >= start and offset < stable and offset in log.records:
                require((offset in read) == is_committed, f"outcome: {record} at {offset} is read wrongly on {broker}")

    def outcomes(self) -> tuple[dict[int, bool], dict[int, list[int]]]:
        """Return which exposed records are committed, and the offsets of each undecided transaction, by producer id."""
        outcomes: dict[int, bool] = {}
        undecided: dict[int, list[int]] = {}
        for offset, record in sorted(self.exposed.items()):
            if record.is_control:
                is_commit = record.key == build_commit_key()
                outcomes.update(dict.fromkeys(undecided.pop(record.producer_id, []), is_commit))
            elif record.producer_id >= 0:
                undecided.setdefault(record.producer_id, []).append(offset)
            else:
                outcomes[offset] = True
        return outcomes, undecided


def open_transactions(log: PartitionLog) -> set[int]:
    """Return the producer ids of the log's open transactions."""
    return {producer for producer, state in log.producers.items() if state.transaction_start is not None}


def build_commit_key() -> bytes:
    """Return the key of a commit marker's record: version and type, 16 bits each (Kafka's ControlRecordType)."""
    return b"\x00\x00\x00\x01"


def check_log_matching(one: KeptLog, other: KeptLog) -> None:
    """I3: if two logs have a record of the same epoch at the same offset, they are equal below it."""
    shared = sorted(one.records.keys() & other.records.keys(), reverse=True)
    agree = False
    for offset in shared:
        left, right = one.records[offset], other.records[offset]
        agree = agree or left.leader_epoch == right.leader_epoch
        if agree and left != right:
            raise Violation(f"I3: {left} and {right} at {offset}, though later records agree")
