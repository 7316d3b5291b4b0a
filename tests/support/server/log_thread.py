"""The thread that works on the files of logs, run by the test."""

from __future__ import annotations

import asyncio

from kraft.server.replica.partition import Partition


class LogThread:
    """Stands for `LogSyncer`: a sync runs when the test says so, a step of a change in the next turn of the event loop.

    Where no loop runs, or with `holds_steps`, a step waits for the test, too.
    """

    def __init__(self) -> None:
        self.unsynced: list[Partition] = []
        """Partitions that requested a sync."""
        self.holds_steps = False
        self._stepping: list[Partition] = []
        """Partitions whose change has a step to run."""

    @property
    def is_idle(self) -> bool:
        return not self.unsynced and not any(partition.is_changing for partition in self._stepping)

    def request(self, partition: Partition) -> None:
        if not partition.is_changing:
            self.unsynced.append(partition)
            return
        self._stepping.append(partition)
        if not self.holds_steps and (loop := asyncio._get_running_loop()) is not None:
            loop.call_soon(self._run_steps)

    def run_round(self) -> None:
        """Run one step of each log that is changed, and sync each other log that waits for it."""
        waiting = [*self._take_stepping(), *self.unsynced]
        self.unsynced.clear()
        for partition in dict.fromkeys(waiting):
            run_ticket(partition)

    def run_until_idle(self) -> None:
        while not self.is_idle:
            self.run_round()

    def _run_steps(self) -> None:
        for partition in dict.fromkeys(self._take_stepping()):
            run_ticket(partition)

    def _take_stepping(self) -> list[Partition]:
        stepping, self._stepping = self._stepping, []
        return [partition for partition in stepping if partition.is_changing]


def run_ticket(partition: Partition) -> None:
    """Run the next step of the log's change, or else sync the log."""
    ticket = partition.prepare_sync()
    if ticket is not None:
        ticket.run()
        partition.complete_sync(ticket)


def finish_changes(partition: Partition) -> None:
    """Run the remaining steps of the log's changes."""
    while partition.is_changing:
        step = partition.prepare_sync()
        assert step is not None, "the step that was prepared before is still to be run"
        step.run()
        partition.complete_sync(step)
