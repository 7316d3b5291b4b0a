"""Appends, cuts, deletions, retention and changes of role in any order, between any two steps of each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kraft.log.append_work import AppendMustWait
from kraft.model.errors import Refusal
from kraft.model.ids import Offset
from kraft.replication.effects import RestartAt, TruncateTo
from kraft.server.replica.log_changes import ChangeOutcome
from tests.support.server.replicas import Broker, batch, follow, lead, leaders_batch, values_in

STEPS = 250


class Run:
    """`records` are what the log must hold, each at its offset, when nothing is under way."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = Random(seed)
        self.directory = directory
        self.epoch = 1
        self.written = 0
        self.records: dict[int, str] = {}
        self.waited = 0
        self._open()

    def _open(self) -> None:
        self.broker = Broker(self.directory)
        self.partition = self.broker.open(segment_bytes=700, retention_bytes=4_000)
        self.under_way: ChangeOutcome[Any] | None = None

    # --- what happens ----------------------------------------------------------------------------------------

    def lead(self) -> None:
        self.epoch += 1
        lead(self.partition, epoch=self.epoch, replicas=(1,))

    def follow(self) -> None:
        self.epoch += 1
        follow(self.partition, epoch=self.epoch)

    def append(self) -> None:
        value = self._value()
        at = self.partition.log.log_end_offset
        try:
            if self.partition.leader is not None:
                self.partition.append(batch(value), 1)
                self.records[at] = value
        except AppendMustWait:
            self.waited += 1

    def copy(self) -> None:
        value, at = self._value(), self.partition.log.log_end_offset
        if self.partition.follower is not None and not self.partition._follower_change_pending:
            records = leaders_batch(value, at=at, epoch=self.epoch - self.random.choice((0, 0, 1)))
            self._change(lambda: self.partition.append_as_follower(records), lambda: self.records.update({at: value}))

    def cut(self) -> None:
        log = self.partition.log
        if self.partition.follower is None or self.partition._follower_change_pending:
            return
        if self.random.random() < 0.2:
            start = log.log_end_offset + self.random.randrange(5)
            effect: TruncateTo | RestartAt = RestartAt(offset=Offset(start))
        else:
            start = self.random.randint(log.log_start_offset, log.log_end_offset)
            effect = TruncateTo(offset=Offset(start))

        def is_cut() -> None:
            kept = {at: value for at, value in self.records.items() if at < start}
            self.records = {} if isinstance(effect, RestartAt) else kept

        self._change(lambda: self.partition.truncate(effect), is_cut)

    def delete(self) -> None:
        if self.partition.leader is not None:
            offset = self.random.randint(0, self.partition.high_watermark)
            self._change(lambda: self.partition.delete_records(offset)[1], lambda: None)

    def retain(self) -> None:
        self._change(self.partition.apply_retention, lambda: None)

    def step(self) -> None:
        self.broker.sync()

    def restart(self) -> None:
        """Stop cleanly in the middle of any change, and start again."""
        waiting, self.broker.unsynced[:] = [*self.broker.unsynced], []
        for log in waiting[: self.random.randint(0, 1)]:
            ticket = log.prepare_sync()
            if ticket is not None and type(ticket).__name__ == "StepTicket":
                # It was run, and nobody came to hear of it.
                ticket.run()
        self.partition.close()
        assert self.broker.failures == []
        self._open()
        self.check()

    # --- small parts -----------------------------------------------------------------------------------------

    def _value(self) -> str:
        self.written += 1
        return f"{self.written} ".ljust(self.random.choice((20, 120)), ".")

    def _change(self, begin: Callable[[], ChangeOutcome[Any]], done: Callable[[], None]) -> None:
        try:
            outcome = begin()
        except Refusal:
            return

        def over() -> None:
            try:
                outcome.result()
            except Refusal:
                return
            done()

        outcome.when_done(over)

    def check(self) -> None:
        self.broker.sync_all()
        log = self.partition.log
        expected = [value for at, value in sorted(self.records.items()) if at >= log.log_start_offset]
        assert values_in(self.partition) == expected
        assert log.synced_end_offset == log.log_end_offset
        assert (self.broker.failures, self.broker.corrupt) == ([], [])


@pytest.mark.parametrize("seed", range(40))
def test_a_log_holds_what_was_written_and_not_truncated_in_any_order_of_steps(tmp_path: Path, seed: int) -> None:
    run = Run(tmp_path, seed)
    choices = [run.append] * 6 + [run.copy] * 6 + [run.step] * 9
    choices += [run.lead, run.follow, run.cut, run.delete, run.retain]
    for number in range(STEPS):
        run.random.choice(choices)()
        if number % 40 == 39:
            run.restart() if run.random.random() < 0.5 else run.check()
    run.check()
    run.partition.close()
