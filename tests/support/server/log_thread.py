"""The thread that works on the files of logs, run by the test."""

from __future__ import annotations

import asyncio

from kraft.server.replica.partition import Partition
from kraft.server.replica.replica_log import ReplicaLog


class LogThread:
    """Stands for `LogSyncer`: a sync runs when the test says so, a step of a change in the next turn of the event loop.

    Where no loop runs, or with `holds_steps`, a step waits for the test, too.
    """

    def __init__(self) -> None:
        self.unsynced: list[ReplicaLog] = []
        """Logs that requested a sync."""
        self.holds_steps = False
        self._stepping: list[ReplicaLog] = []
        """Logs whose change has a step to run."""

    @property
    def is_idle(self) -> bool:
        return not self.unsynced and not any(log.is_changing for log in self._stepping)

    def request(self, log: ReplicaLog) -> None:
        if not log.is_changing:
            self.unsynced.append(log)
            return
        self._stepping.append(log)
        if not self.holds_steps and (loop := asyncio._get_running_loop()) is not None:
            loop.call_soon(self._run_steps)

    def run_round(self) -> None:
        """Run one step of each log that is changed, and sync each other log that waits for it."""
        waiting = [*self._take_stepping(), *self.unsynced]
        self.unsynced.clear()
        for log in dict.fromkeys(waiting):
            run_ticket(log)

    def run_until_idle(self) -> None:
        while not self.is_idle:
            self.run_round()

    def _run_steps(self) -> None:
        for log in dict.fromkeys(self._take_stepping()):
            run_ticket(log)

    def _take_stepping(self) -> list[ReplicaLog]:
        stepping, self._stepping = self._stepping, []
        return [log for log in stepping if log.is_changing]


def run_ticket(log: ReplicaLog) -> None:
    """Run the next step of the log's change, or else sync the log."""
    ticket = log.prepare_sync()
    if ticket is not None:
        ticket.run()
        log.complete_sync(ticket)


def finish_changes(partition: Partition) -> None:
    """Run the remaining steps of the log's changes."""
    log = partition.replica_log
    while log.is_changing:
        step = log.prepare_sync()
        assert step is not None, "the step that was prepared before is still to be run"
        step.run()
        log.complete_sync(step)
