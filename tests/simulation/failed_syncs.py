"""A sync fails, the node ends and starts again, and later the power fails: what counts as synced survives.

A kernel that could not write pages reports it once, and may mark them clean: they stay readable, and the next sync
succeeds. So bytes above the last sync that is known to have succeeded may not be on the disk.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from kraft.model.errors import Corruption, KraftError, Refusal
from kraft.model.ids import LeaderEpoch
from tests.simulation.log_workload import Workload
from tests.support.disks.sim_content import CrashMode, SyncFailure
from tests.support.disks.sim_disk import SimDisk
from tests.support.log.log_building import append, sync
from tests.support.log.log_expectations import Broken, meets, read_bytes
from tests.support.log.modelled_log import open_log


class FailingSync:
    """Makes the sync with that number fail, counted from the hook's installation."""

    def __init__(self, disk: SimDisk, number: int, failure: SyncFailure) -> None:
        self.seen = 0
        self.operation = ""
        self._disk, self._number, self._failure = disk, number, failure
        disk.on_point = self._on_point

    def _on_point(self) -> None:
        if self._disk.last_operation.startswith("sync"):
            self.seen += 1
            if self.seen == self._number:
                self.operation = self._disk.last_operation
                self._disk.fail_next_sync(self._failure)


def run_until_refused(workload: Workload, steps: int) -> Exception | None:
    """Run the steps; return the error that ended the run, or None."""
    try:
        workload.run(steps)
    except (Refusal, OSError) as error:
        return error
    except Corruption as corruption:
        # The kernel dropped what it could not write, and the log does not know yet: the ticket is not completed.
        if workload.model.ticket is None or workload.model.ticket.error is None:
            raise
        try:
            workload.model.complete_sync()
        except Refusal as refusal:
            return refusal
        raise AssertionError("a failed sync was completed") from corruption
    return None


@dataclass(slots=True)
class Tally:
    """Counts of a search."""

    failed_syncs: int = 0
    recoveries: int = 0
    steps: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return f"{self.failed_syncs} failed syncs, {self.recoveries} recoveries from a loss of power after the restart"


def fail_everywhere(workload_seed: int, steps: int) -> Tally:
    """Fail each sync of a workload in a run of its own. Raises AssertionError for the first loss."""
    tally = Tally()
    number = 0
    while True:
        number += 1
        workload = Workload(workload_seed)
        failing = FailingSync(workload.model.disk, number, SyncFailure.MARKS_CLEAN)
        if run_until_refused(workload, steps) is None:
            return tally
        workload.model.disk.on_point = None
        workload.model.log.close()
        tally.failed_syncs += 1
        tally.steps[workload.step] += 1
        for mode in (CrashMode.DROP, CrashMode.TEAR, CrashMode.REORDER):
            for is_used in (False, True):
                try:
                    _restart_and_lose_power(workload, mode, is_used)
                except (KraftError, Broken, OSError) as problem:
                    raise AssertionError(
                        f"workload {workload_seed}, failed sync {number} ({failing.operation}, in {workload.step!r}), "
                        f"then {mode.value}{', after more records' if is_used else ''}: {problem}"
                    ) from problem
                tally.recoveries += 1


def _restart_and_lose_power(workload: Workload, mode: CrashMode, is_used: bool) -> None:
    model = workload.model
    disk = model.disk.clone()
    disk.crash(CrashMode.KEEP, Random(0))
    log = open_log(disk, model.config)
    meets(model.expectations, log)
    if is_used:
        append(log, "behind the restart", epoch=LeaderEpoch(max(model.epoch, log.latest_epoch)))
        sync(log)
    if log.synced_end_offset != log.log_end_offset:
        raise Broken(f"the log ends at {log.log_end_offset}, synced is {log.synced_end_offset} only")
    held = (log.log_start_offset, log.log_end_offset, read_bytes(log))
    disk.crash(mode, Random(workload.model.disk.points))
    again = open_log(disk, model.config)
    found = (again.log_start_offset, again.log_end_offset, read_bytes(again))
    if held != found:
        raise Broken(f"[{held[0]}, {held[1]}) counted as synced, and [{found[0]}, {found[1]}) is left")
