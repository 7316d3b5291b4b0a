"""Operations on a log in random order: the workload of the simulations that crash it and that break its disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from kraft.log.topic_config import TopicConfig
from tests.support.disks.sim_disk import SimDisk
from tests.support.log.modelled_log import ModelledLog

TEMPERS: Final = {
    "mixed": (),
    "calm": ("append", "append idempotent", "sync"),
    "compacting": ("append", "append idempotent", "roll", "compaction"),
}
"""Steps that are eight times as likely. In a calm life other steps make little durable as a side effect."""

SMALL: Final = TopicConfig(segment_bytes=6000, index_interval_bytes=300)


class Workload:
    """Steps of every kind in an order that the seed decides."""

    def __init__(self, seed: int, config: TopicConfig = SMALL, disk: SimDisk | None = None) -> None:
        self.random = Random(seed)
        self.temper = list(TEMPERS)[seed % len(TEMPERS)]
        self.model = ModelledLog(config, disk)
        self.steps: Counter[str] = Counter()
        self.step = ""
        """The step in progress."""

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.run_step()

    def run_all_kinds(self, steps: int) -> None:
        """Run the steps, and then each kind of step that did not occur."""
        self.run(steps)
        for step in self.kinds():
            if step not in self.steps:
                self._take(step)

    def run_step(self) -> None:
        kinds = self.kinds()
        often = TEMPERS[self.temper]
        weights = [weight * 8 if name in often else weight for name, (_, weight) in kinds.items()]
        self._take(self.random.choices(list(kinds), weights)[0])

    def _take(self, step: str) -> None:
        self.step = step
        self.kinds()[step][0]()
        self.steps[step] += 1
        self.model.check()

    def kinds(self) -> dict[str, tuple[Callable[[], None], int]]:
        model = self.model
        return {
            "append": (self._append, 14),
            "append idempotent": (self._append_idempotent, 14),
            "append as follower": (self._append_as_follower, 6),
            "lead a new epoch": (lambda: model.lead_new_epoch(self.random.randint(1, 3)), 4),
            "prepare a sync": (model.prepare_sync, 8),
            "run the sync": (model.run_sync, 6),
            "complete the sync": (model.complete_sync, 8),
            "sync": (self._sync, 3),
            "roll": (model.roll, 2),
            "truncate": (self._truncate, 3),
            "begin anew": (self._begin_anew, 1),
            "join inside a batch": (self._join, 1),
            "follow another history": (self._follow_another_history, 3),
            "stop and start": (lambda: model.reopen(self.random.random() < 0.5), 2),
            "advance the log start": (self._advance_log_start, 3),
            "retention": (self._retention, 3),
            "compaction": (self._compact, 3),
            "remove deleted files": (model.remove_deleted, 3),
            "retry": (self._retry, 3),
            "lookup": (lambda: model.check_lookup(model.now_ms - self.random.randrange(400)), 3),
        }

    def _sizes(self) -> list[int]:
        return [self.random.choice((0, 5, 60, 300, 900)) for _ in range(self.random.randint(1, 4))]

    def _append(self) -> None:
        self.model.append(self._sizes()[:2], self.random.randint(1, 3))

    def _append_idempotent(self) -> None:
        bumps_epoch = self.random.random() < 0.08
        self.model.append_idempotent(self.random.choice((7, 8)), self._sizes(), bumps_epoch)

    def _append_as_follower(self) -> None:
        batches = [self._sizes()[:2] for _ in range(self.random.randint(1, 5))]
        hole = self.random.choice((0, 0, 0, 0, 0, 0, 0, 3))
        self.model.append_as_follower(batches, self.random.choice((0, 0, 1, 2)), hole)

    def _sync(self) -> None:
        self.model.prepare_sync()
        self.model.complete_sync()

    def _truncate(self) -> None:
        self.model.truncate_to(max(self.model.start, self.model.end - self.random.choice((0, 1, 3, 8, 25))))

    def _begin_anew(self) -> None:
        if len(self.model.batches) > 10:
            self.model.begin_anew(self.model.end + self.random.randint(0, 5))

    def _join(self) -> None:
        if len(self.model.batches) > 10:
            batches = [self._sizes()[:2] for _ in range(self.random.randint(1, 3))]
            self.model.join_inside_a_batch(self.random.randint(0, 3), batches)

    def _follow_another_history(self) -> None:
        """Truncate what this replica wrote as a leader, and append what the new leader has instead."""
        self.random.choice((self._truncate, self._begin_anew))()
        batches = [self._sizes()[:2] for _ in range(self.random.randint(1, 3))]
        epoch = self.random.randint(self.model.least_epoch_of_a_leader, self.model.epoch)
        self.model.follow_another_history(epoch, batches)

    def _advance_log_start(self) -> None:
        model = self.model
        model.advance_log_start(min(model.end, model.start + self.random.choice((0, 1, 4, 15))))

    def _retention(self) -> None:
        model = self.model
        retention_bytes = self.random.choice((-1, 4000, 9000))
        retention_ms = self.random.choice((-1, 100, 200))
        config = replace(model.config, retention_bytes=retention_bytes, retention_ms=retention_ms)
        model.apply_retention(config, model.end - self.random.choice((0, 0, 4)))

    def _compact(self) -> None:
        model = self.model
        config = replace(
            model.config, cleanup_policy=("compact", "delete"), min_cleanable_dirty_ratio=0.0, delete_retention_ms=100
        )
        model.compact(config, model.end - self.random.choice((0, 0, 4)))

    def _retry(self) -> None:
        if self.model.next_sequence:
            self.model.retry(self.random.choice(sorted(self.model.next_sequence)), self.random.randrange(5))
