"""The log against a plain list: whatever is done in whatever order, both hold the same records."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kraft.log.group_commit import SyncTicket
from kraft.log.log_config import LogConfig
from kraft.log.record_batch import iter_records, split
from kraft.model.ids import LeaderEpoch, Offset
from tests.unit.log.log_building import append, open_log, read_all
from tests.unit.log.memory_disk import MemoryDisk

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100)


@dataclass(frozen=True)
class Written:
    """A record of the model; `batch` is the offset that its batch starts at."""

    value: str
    epoch: int
    batch: int


class LogAgainstList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()
        self.log = open_log(self.disk, CONFIG)
        self.start = 0
        self.records: list[Written] = []
        self.epoch = 0
        self.count = 0
        self.durable_end = 0
        self.ticket: SyncTicket | None = None
        self.ticket_end = 0

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    # --- what a leader and a follower do ---------------------------------------------------------------------

    @rule(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=4))
    def append(self, sizes: list[int]) -> None:
        values = [f"{self.count + index}:{'x' * size}" for index, size in enumerate(sizes)]
        self.count += len(sizes)
        base = self.end
        assert append(self.log, *values, epoch=self.epoch).base_offset == base
        self.records += [Written(value, self.epoch, base) for value in values]

    @rule(step=st.integers(1, 3))
    def lead_a_new_epoch(self, step: int) -> None:
        self.epoch += step

    @rule(back=st.integers(0, 30))
    def truncate(self, back: int) -> None:
        target = max(self.start, self.end - back)
        if target < self.end:
            target = self.records[target - self.start].batch
        assert self.log.truncate_to(Offset(target)) == target
        del self.records[target - self.start :]
        if back and target < self.end + back:
            self.ticket_end = min(self.ticket_end, target)
        self.durable_end = min(self.durable_end, target)

    @rule(ahead=st.integers(0, 10))
    @precondition(lambda self: len(self.records) > 20)
    def begin_anew(self, ahead: int) -> None:
        self.start = self.end + ahead
        self.records = []
        self.log.truncate_fully_and_start_at(Offset(self.start))
        self.ticket_end = self.durable_end = self.start

    # --- durability ------------------------------------------------------------------------------------------

    @rule()
    @precondition(lambda self: self.ticket is None)
    def prepare_sync(self) -> None:
        self.ticket, self.ticket_end = self.log.prepare_sync(), self.end

    @rule()
    @precondition(lambda self: self.ticket is not None)
    def complete_sync(self) -> None:
        assert self.ticket is not None
        self.ticket.run()
        self.log.complete_sync(self.ticket)
        self.ticket = None
        self.durable_end = max(self.durable_end, self.ticket_end)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(kept_bytes=st.integers(0, 500))
    def crash(self, kept_bytes: int) -> None:
        promised = self.log.synced_end_offset
        assert promised >= self.durable_end
        self.disk.crash(kept_bytes)
        self.ticket = None
        self.log = open_log(self.disk, CONFIG)
        assert promised <= self.log.log_end_offset <= self.end
        del self.records[self.log.log_end_offset - self.start :]
        self.durable_end = self.end

    @rule(power_fails=st.booleans())
    @precondition(lambda self: self.ticket is None)
    def stop_and_start(self, power_fails: bool) -> None:
        self.log.close()
        if power_fails:
            self.disk.crash()
        self.log = open_log(self.disk, CONFIG, clean_shutdown=True)
        self.durable_end = self.end

    # --- what must hold --------------------------------------------------------------------------------------

    @rule(data=st.data(), bytes_max=st.integers(0, 700))
    @precondition(lambda self: self.records)
    def read(self, data: st.DataObject, bytes_max: int) -> None:
        offset = data.draw(st.integers(self.start, self.end - 1))
        upper = data.draw(st.integers(offset, self.end))
        records = self.log.read(Offset(offset), bytes_max, Offset(upper))
        batches = split(records)
        if not batches:
            assert self.batch_end(offset) > upper
            return
        assert batches[0][0].base_offset == self.records[offset - self.start].batch
        assert batches[-1][0].next_offset <= upper
        assert len(records) <= bytes_max or len(batches) == 1
        for record in iter_records(records):
            assert record.value == self.records[record.offset - self.start].value.encode()

    def batch_end(self, offset: int) -> int:
        batch = self.records[offset - self.start].batch
        return self.start + max(index for index, record in enumerate(self.records) if record.batch == batch) + 1

    @invariant()
    def both_hold_the_same(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        assert read_all(self.log) == [record.value for record in self.records]
        assert self.durable_end <= self.log.synced_end_offset <= self.end

    @invariant()
    def epochs_end_where_the_list_says(self) -> None:
        present = sorted({record.epoch for record in self.records})
        assert [entry.epoch for entry in self.log.epoch_cache.entries] == present
        for epoch in present:
            behind = max(index for index, record in enumerate(self.records) if record.epoch == epoch) + 1
            assert self.log.end_offset_for_epoch(LeaderEpoch(epoch)) == (epoch, self.start + behind)


LogAgainstList.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLogAgainstList = LogAgainstList.TestCase
