"""The log compared with a plain list: after any operations in any order both hold the same records.

The list, and what may be left of it by a loss of power, are those of the simulation: `tests.support.log.modelled_log`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from kraft.log.format.control_record import MarkerType
from kraft.log.topic_config import TopicConfig
from kraft.model.ids import LeaderEpoch, Offset
from tests.support.disks.sim_content import CrashMode
from tests.support.log.modelled_log import ModelledLog

RUNS = 200
STEPS_IN_A_RUN = 40
STEPS_LEAST = 6_000

CONFIG = TopicConfig(segment_bytes=3000, index_interval_bytes=200)
CONFIGS = (
    CONFIG,
    replace(CONFIG, message_timestamp_type="LogAppendTime"),
    replace(CONFIG, segment_bytes=9000, index_interval_bytes=0, segment_index_bytes=60),
    replace(CONFIG, segment_ms=40, segment_jitter_ms=20, preallocate=True),
)

sizes = st.lists(st.integers(0, 250), min_size=1, max_size=4)


class LogAgainstList(RuleBasedStateMachine):
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.model = ModelledLog(CONFIG)

    # --- what a leader and a follower do ---------------------------------------------------------------------

    @rule(value_sizes=sizes, batches=st.integers(1, 2))
    def append(self, value_sizes: list[int], batches: int) -> None:
        self.model.append(value_sizes, batches)

    @rule(producer_id=st.integers(1, 2), value_sizes=sizes, bumps_epoch=st.booleans())
    def append_idempotent(self, producer_id: int, value_sizes: list[int], bumps_epoch: bool) -> None:
        self.model.append_idempotent(producer_id, value_sizes, bumps_epoch)

    @rule(producer_id=st.integers(3, 4), value_sizes=sizes)
    def append_to_a_transaction(self, producer_id: int, value_sizes: list[int]) -> None:
        self.model.append_transactional(producer_id, value_sizes)

    @rule(producer_id=st.integers(3, 4), kind=st.sampled_from(MarkerType))
    def end_a_transaction(self, producer_id: int, kind: MarkerType) -> None:
        self.model.end_transaction(producer_id, kind)

    @rule(producer_id=st.integers(1, 4), age=st.integers(0, 4))
    def send_again(self, producer_id: int, age: int) -> None:
        self.model.retry(producer_id, age)

    @rule(step=st.integers(1, 3))
    def lead_a_new_epoch(self, step: int) -> None:
        self.model.lead_new_epoch(step)

    @rule(
        batches=st.lists(sizes, min_size=1, max_size=5),
        epoch_step=st.integers(0, 2),
        hole=st.sampled_from([0, 0, 0, 4]),
    )
    def copy_from_the_leader(self, batches: list[list[int]], epoch_step: int, hole: int) -> None:
        self.model.append_as_follower(batches, epoch_step, hole)

    @rule(back=st.integers(0, 30))
    def truncate(self, back: int) -> None:
        self.model.truncate_to(max(self.model.start, self.model.end - back))

    @rule(ahead=st.integers(0, 10))
    @precondition(lambda self: len(self.model.batches) > 8)
    def begin_anew(self, ahead: int) -> None:
        self.model.begin_anew(self.model.end + ahead)

    @rule(ahead=st.integers(0, 3), batches=st.lists(sizes, min_size=1, max_size=2))
    @precondition(lambda self: len(self.model.batches) > 8)
    def join_inside_a_batch(self, ahead: int, batches: list[list[int]]) -> None:
        self.model.join_inside_a_batch(ahead, batches)

    # --- durability ------------------------------------------------------------------------------------------

    @rule()
    def prepare_sync(self) -> None:
        self.model.prepare_sync()

    @rule()
    def run_sync(self) -> None:
        self.model.run_sync()

    @rule()
    def complete_sync(self) -> None:
        self.model.complete_sync()

    @rule()
    def roll(self) -> None:
        self.model.roll()

    @rule(config=st.sampled_from(CONFIGS))
    def reconfigure(self, config: TopicConfig) -> None:
        self.model.reconfigure(config)

    @rule(age_ms=st.integers(0, 60))
    def roll_if_due(self, age_ms: int) -> None:
        self.model.roll_if_due(age_ms)

    # --- housekeeping ----------------------------------------------------------------------------------------

    @rule(ahead=st.integers(0, 12))
    def advance_log_start(self, ahead: int) -> None:
        self.model.advance_log_start(min(self.model.start + ahead, self.model.end))

    @rule(
        retention_bytes=st.sampled_from([-1, 0, 2000, 6000]),
        retention_ms=st.sampled_from([-1, 20, 100]),
        uncommitted=st.integers(0, 5),
    )
    def apply_retention(self, retention_bytes: int, retention_ms: int, uncommitted: int) -> None:
        config = replace(self.model.config, retention_bytes=retention_bytes, retention_ms=retention_ms)
        self.model.apply_retention(config, self.model.end - uncommitted)

    @rule(uncommitted=st.integers(0, 5), delete_retention_ms=st.sampled_from([0, 50, 10_000]))
    def compact(self, uncommitted: int, delete_retention_ms: int) -> None:
        config = replace(
            self.model.config,
            cleanup_policy=("compact", "delete"),
            min_cleanable_dirty_ratio=0.0,
            delete_retention_ms=delete_retention_ms,
        )
        self.model.compact(config, self.model.end - uncommitted)

    @rule()
    def remove_deleted_files(self) -> None:
        self.model.remove_deleted()

    # --- stops -----------------------------------------------------------------------------------------------

    @rule(mode=st.sampled_from(CrashMode), seed=st.integers(0, 999))
    def crash(self, mode: CrashMode, seed: int) -> None:
        self.model.crash(mode, Random(seed))

    @rule(clean_shutdown=st.booleans())
    def stop_and_start(self, clean_shutdown: bool) -> None:
        self.model.reopen(clean_shutdown)

    # --- what must hold --------------------------------------------------------------------------------------

    @rule(data=st.data(), bytes_max=st.integers(0, 2000))
    @precondition(lambda self: self.model.start < self.model.end)
    def read(self, data: st.DataObject, bytes_max: int) -> None:
        model = self.model
        start = data.draw(st.integers(model.start, model.end - 1))
        upper = data.draw(st.integers(start, model.end))
        found = model.log.read(Offset(start), bytes_max, Offset(upper))
        batches = [batch.data for batch in model.batches if start < batch.next_offset <= upper]
        assert bool(found) == bool(batches), "there is something exactly when a batch ends between start and upper"
        whole = b"".join(batches)
        assert whole.startswith(found)
        ends = list(accumulate(map(len, batches)))
        assert not found or len(found) in ends
        assert len(found) <= bytes_max or len(found) == ends[0]

    @rule(age_ms=st.integers(-5, 400))
    def look_up_a_time(self, age_ms: int) -> None:
        self.model.check_lookup(self.model.now_ms - age_ms)

    @invariant()
    def both_hold_the_same(self) -> None:
        type(self).steps += 1
        self.model.check()

    @invariant()
    def consumers_of_committed_records_read_what_the_list_says(self) -> None:
        self.model.check_committed()

    @invariant()
    def epochs_end_where_the_list_says(self) -> None:
        batches = self.model.batches
        for epoch in {batch.epoch for batch in batches}:
            least = max(batch.next_offset for batch in batches if batch.epoch <= epoch)
            most = min((batch.base_offset for batch in batches if batch.epoch > epoch), default=self.model.end)
            found, end = self.model.log.end_offset_for_epoch(LeaderEpoch(epoch))
            assert found == epoch
            # Without holes there is no choice.
            assert least <= end <= most


@pytest.mark.slow
@pytest.mark.hypothesis
@pytest.mark.timeout(400)
def test_the_log_holds_what_the_list_holds_whatever_happens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kraft.log.group_commit.CHECKPOINT_INTERVAL_BYTES", 2500)
    run_state_machine_as_test(
        LogAgainstList,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=STEPS_IN_A_RUN,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    with capsys.disabled():
        print(f"\nthe log against a list: {LogAgainstList.steps:,} steps")
    assert LogAgainstList.steps >= STEPS_LEAST
