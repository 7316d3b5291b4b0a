"""Plans the micro-batches of a stream on the driver: where each begins and ends, and what is lost before it.

Losses are looked for here, with one look-up for all partitions, so that the query's progress can show them: tasks have
no way to report a number. Only what is deleted between the planning and the reading of a micro-batch is found by a
task, which logs it; the next plan counts the records that this may be.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kraft.client import TopicPartition
from spark_connector import ranges
from spark_connector.cluster import Cluster, Missing
from spark_connector.data_loss import LossPolicy
from spark_connector.limits import RecordSizes, TriggerDelay, limited, limited_bytes
from spark_connector.offsets import Offsets, Position, added, beginning_of_batch
from spark_connector.options import SourceOptions
from spark_connector.splitting import split
from spark_connector.view import Differences, Observer, View, look


class Planner:
    """The plan of one query. It remembers what it reported, and nothing that the next run of the query would need."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._observer = Observer(options.subscription, options.patience)
        self._losses = LossPolicy(fail=options.fail_on_data_loss)
        self._sizes = RecordSizes(time.monotonic)
        self._delay: TriggerDelay | None = None
        if options.offsets_per_trigger_min is not None:
            self._delay = TriggerDelay(options.offsets_per_trigger_min, options.trigger_delay_max_s, time.monotonic)
        self._target: View | None = None
        self._planned_end: Mapping[str, Any] | None = None
        """The end that this object planned last. Any other comes from the checkpoint: its batch is read again."""
        self._running: list[ranges.OffsetRange] = []
        """The ranges planned last, until their micro-batch is known to be over."""
        self._ends: dict[TopicPartition, tuple[str, int]] = {}
        """Topic id and end of each partition when it was seen last: what a topic had when it was deleted."""
        self.seen: View | None = None
        """What the cluster showed last."""

    @property
    def stops_at_target(self) -> bool:
        return self._target is not None

    def stop_at_present(self, cluster: Cluster) -> None:
        """Plan nothing that is appended from now on."""
        self._target = look(cluster, self._options.subscription)

    # --- the end of a micro-batch -----------------------------------------------------------------------------

    def end(self, cluster: Cluster, start: Position, *, is_limited: bool) -> Position | None:
        """Return where the micro-batch from `start` ends; None if there is to be none. Raises DataLoss."""
        try:
            return self._end(cluster, start, is_limited=is_limited)
        except Missing:
            # A topic was deleted between two requests. Now it is seen to be missing.
            return self._end(cluster, start, is_limited=is_limited)

    def _end(self, cluster: Cluster, start: Position, *, is_limited: bool) -> Position | None:
        view, found = self._observer.settled(cluster, start)
        self.seen = view
        self._complete_target(start, view)
        ids = self._ids_up_to_target(view)
        recreated = found.recreated & ids.keys()
        self._report(start, view, found)
        for name in sorted(recreated):
            self._report_recreated(name, start)
        self._ends |= {each: (view.topics[each.topic].topic_id, end) for each, end in view.latest.items()}
        begin = _begin(cluster, start, view, recreated)
        latest = {each: end for each, end in self._up_to_target(view, begin).items() if each.topic in ids}
        # A loss that was reported is in the next position, so that it is not reported again.
        may_wait = is_limited and self._target is None and not recreated and not found.behind
        if may_wait and self._delay is not None and self._delay.delays(begin, latest):
            return None
        deleted_while_read = self._skip_deleted(cluster, begin, latest)
        end = self._limited(cluster, begin, latest) if is_limited else latest
        # The offsets of partitions that are missing now are kept, but not those of a deleted topic.
        kept = {each: offset for each, offset in start.offsets.items() if each.topic not in recreated}
        offsets = {**kept, **end}
        # What a batch of the checkpoint lost gets into the progress even if nothing new follows.
        is_worth_it = start.is_initial or bool(recreated) or self._losses.has_more
        if offsets == start.offsets and not is_worth_it:
            return None
        begins = {**kept, **{each: begin[each] for each in end}}
        return Position(
            offsets=offsets,
            topic_ids={**start.topic_ids, **ids},
            skipped=added(start.skipped, self._losses.take()),
            deleted_while_read=added(start.deleted_while_read, deleted_while_read),
            began={
                each: offset
                for each, offset in begins.items()
                if start.is_initial or offset != start.offsets.get(each, 0)
            },
            group_id=start.group_id,
        )

    def planned(self, end: Mapping[str, Any]) -> Mapping[str, Any]:
        """Remember the JSON form of an end."""
        self._planned_end = end
        return end

    def _report(self, start: Position, view: View, found: Differences) -> None:
        for name in sorted(found.missing):
            self._losses.report(f"topic {name!r} does not exist any more")
        for partition in sorted(found.absent):
            self._losses.report(
                f"{partition} does not exist any more; the query's offset there is {start.offsets[partition]}"
            )
        for partition in sorted(found.behind):
            ends, offset = f"{partition} ends at offset {view.latest[partition]}", start.offsets[partition]
            why = "the log was truncated by an unclean election, or the topic was deleted and created again"
            self._losses.report(
                f"{ends}, below offset {offset}, its start"
                if start.is_initial
                else f"{ends}, below the query's offset {offset}: {why}"
            )

    def _report_recreated(self, name: str, start: Position) -> None:
        """Report what is known to be lost: how far the deleted topic was ahead of the query when it was last seen."""
        self._losses.report(f"topic {name!r} was deleted and created again; what was not read before is lost")
        for partition, (topic_id, latest) in sorted(self._ends.items()):
            offset = start.offsets.get(partition, 0)
            if partition.topic == name and topic_id == start.topic_ids[name] and latest > offset:
                what = f"offsets {offset} to {latest - 1} of {partition} were deleted with the topic"
                self._losses.report(what, partition=partition, records=latest - offset)

    def _complete_target(self, start: Position, view: View) -> None:
        """Add what the query had read before and the target lacks, because a broker was behind when it was taken."""
        if self._target is not None:
            late = {each: end for each, end in view.latest.items() if each in start.offsets}
            names = {partition.topic for partition in late}
            topics = {name: topic for name, topic in view.topics.items() if name in names}
            self._target = View(topics={**topics, **self._target.topics}, latest={**late, **self._target.latest})

    def _ids_up_to_target(self, view: View) -> dict[str, str]:
        """Return the topics to read by name, without those that are newer than the target."""
        if self._target is None:
            return view.topic_ids
        of_target = self._target.topic_ids
        return {name: topic_id for name, topic_id in view.topic_ids.items() if of_target.get(name) == topic_id}

    def _up_to_target(self, view: View, begin: Offsets) -> Offsets:
        if self._target is None:
            return view.latest
        ends = self._target.latest
        return {each: max(begin[each], min(end, ends[each])) for each, end in view.latest.items() if each in ends}

    def _skip_deleted(
        self, cluster: Cluster, begin: dict[TopicPartition, int], latest: Offsets
    ) -> dict[TopicPartition, int]:
        """Move `begin` behind deleted records, and report them.

        Returns how many records of the last micro-batch were deleted since it was planned.
        """
        fresh = sorted(partition for partition, end in latest.items() if end > begin[partition])
        if not fresh:
            return {}
        running = {each.partition: each for each in self._running if each.partition in latest}
        earliest = cluster.earliest_offsets(sorted({*fresh, *running}))
        for partition in fresh:
            position = begin[partition]
            resumed = min(earliest[partition], latest[partition])
            if resumed > position:
                what = f"offsets {position} to {resumed - 1} of {partition} were deleted before they were read"
                self._losses.report(what, partition=partition, records=resumed - position)
                begin[partition] = resumed
        if self._losses.fail:
            return {}
        counts = {each: min(earliest[each], planned.end) - planned.start for each, planned in running.items()}
        return {partition: count for partition, count in counts.items() if count > 0}

    def _limited(self, cluster: Cluster, begin: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
        end = dict(latest)
        if (records_max := self._options.offsets_per_trigger_max) is not None:
            end = limited(begin, end, records_max)
        if (bytes_max := self._options.bytes_per_trigger_max) is not None:
            end = limited_bytes(begin, end, bytes_max, self._sizes.of(cluster, begin, end))
        return end

    # --- its ranges -------------------------------------------------------------------------------------------

    def tasks(self, cluster: Cluster, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[ranges.OffsetRange]:
        """Return the ranges of the micro-batch between two positions in JSON form. Raises DataLoss."""
        planned = ranges.plan(beginning_of_batch(start, end), Position.from_json(end).offsets)
        if planned and end != self._planned_end:
            planned = self._still_there(cluster, planned, Position.from_json(end))
        self._running = planned
        return split(planned, self._options.tasks_min, self._options.records_per_task_max)

    def _still_there(
        self, cluster: Cluster, planned: list[ranges.OffsetRange], end: Position
    ) -> list[ranges.OffsetRange]:
        """Return what is left of ranges that were planned before a restart."""
        view, _ = self._observer.settled(cluster, end)
        present: list[ranges.OffsetRange] = []
        for each in planned:
            name = each.partition.topic
            if each.partition not in view.latest:
                self._report_lost(each, "does not exist any more")
            elif view.topic_ids[name] != end.topic_ids.get(name, view.topic_ids[name]):
                self._report_lost(each, "is of a topic that was deleted and created again")
            else:
                present.append(each)
        return ranges.existing(cluster, present, self._losses, self._options.patience)

    def _report_lost(self, lost: ranges.OffsetRange, why: str) -> None:
        what = f"{lost.partition} {why}: offsets {lost.start} to {lost.end - 1} are lost"
        self._losses.report(what, partition=lost.partition, records=lost.size)


def _begin(cluster: Cluster, start: Position, view: View, recreated: frozenset[str]) -> dict[TopicPartition, int]:
    """Return where each present partition begins."""
    known = {partition.topic for partition in start.offsets} - recreated
    # All records of a partition that was added to a topic are new, and so are those of a topic that was created again.
    begin = {
        partition: min(start.offsets.get(partition, 0) if partition.topic in known else 0, end)
        for partition, end in view.latest.items()
        if partition.topic in known or partition.topic in recreated
    }
    # What was deleted in a topic before the query began to read it is no loss.
    others = [partition for partition in view.latest if partition not in begin]
    return begin | (cluster.earliest_offsets(others) if others else {})
