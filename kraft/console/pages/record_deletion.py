"""The deletion of a topic's oldest records: exactly those that the preview has shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.client import ErrorCode, Refusal, TopicPartition
from kraft.console.asking import CHANGE_CLIENT_MS, CLIENT_MS, Asked, Panel
from kraft.console.forms import Done, Form, WrongInput
from kraft.console.pages.topic_figures import Offsets, offsets_of
from kraft.console.rendering import segment
from kraft.model.config_types import INT32_MAX, INT64_MAX
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.client import Admin

PARTITIONS_MAX: Final = 5_000
"""Partitions whose records are deleted at once."""

FORM_BYTES_MAX: Final = 256 * 1024


class PurgedPartition(Struct, frozen=True, kw_only=True):
    partition: int
    start: int | None
    end: int | None
    before: int | None
    """The first offset that is kept; None: nothing is deleted, as it is not known what is there."""

    records: int
    """Offsets that are deleted; fewer records, if the log was compacted."""

    problem: str


class Purge(Struct, frozen=True, kw_only=True):
    partitions: list[PurgedPartition]
    records: int
    offsets: str
    """What the form carries: PARTITION:OFFSET, with commas between."""


class RecordDeletion(Struct, frozen=True, kw_only=True):
    name: str
    topic: Panel[int]
    """How many partitions it has."""

    preview: Panel[Purge] | None

    @property
    def status(self) -> int:
        return self.topic.status if self.topic.problem or self.preview is None else self.preview.status


async def record_deletion(asked: Asked) -> RecordDeletion:
    name = asked.path["topic"]
    topic = await asked.panel(lambda: _partitions(asked.admin, name))
    is_asked = "partition" in asked.form and topic.value is not None
    preview = await asked.panel(lambda: _preview(asked, topic.value or 0)) if is_asked else None
    return RecordDeletion(name=name, topic=topic, preview=preview)


def _partitions(admin: Admin, topic: str) -> int:
    found = admin.find_topics([topic], timeout_ms=CLIENT_MS)
    if topic not in found:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} does not exist")
    return len(found[topic].partitions)


def _preview(asked: Asked, count: int) -> Purge:
    form, name = asked.form, asked.path["topic"]
    numbers = [form.number("partition", 0, count - 1)] if form.text("partition") else list(range(count))
    if len(numbers) > PARTITIONS_MAX:
        raise WrongInput(f"the topic has {count:,} partitions: choose one of them, as {PARTITIONS_MAX:,} are the most")
    before = form.number("keep_from", 0, INT64_MAX) if form.text("keep_from") else None
    offsets = offsets_of(asked.admin, [TopicPartition(name, each) for each in numbers])
    return purge_of({each.partition: found for each, found in offsets.items()}, before)


def purge_of(offsets: Mapping[int, Offsets], before: int | None) -> Purge:
    """Return what is deleted below this offset of each partition; all that is there without one."""
    rows = [_purged(partition, each, before) for partition, each in sorted(offsets.items())]
    return Purge(
        partitions=rows,
        records=sum(each.records for each in rows),
        offsets=",".join(f"{each.partition}:{each.before}" for each in rows if each.records),
    )


def _purged(partition: int, offsets: Offsets, before: int | None) -> PurgedPartition:
    start, end = offsets.start, offsets.end
    if start is None or end is None:
        return PurgedPartition(
            partition=partition, start=start, end=end, before=None, records=0, problem=offsets.problem
        )
    kept = end if before is None else max(start, min(before, end))
    return PurgedPartition(
        partition=partition, start=start, end=end, before=kept, records=max(0, kept - start), problem=""
    )


async def delete_records(asked: Asked) -> Done:
    name = asked.path["topic"]
    wanted = {TopicPartition(name, partition): offset for partition, offset in offsets_in(asked.form).items()}
    kept = await asked.change(lambda: asked.admin.delete_records(wanted, timeout_ms=CHANGE_CLIENT_MS))
    return Done(
        where=f"/clusters/{asked.cluster.name}/topics/{segment(name)}",
        said=f"Records of {counted(len(kept), 'partition')} of topic {name} were deleted.",
        value={str(each.partition): offset for each, offset in kept.items()},
    )


def offsets_in(form: Form) -> dict[int, int]:
    """Return the first offset to keep of each partition. Raises WrongInput."""
    found = {}
    for each in form.text("offsets").split(",") if form.text("offsets") else ():
        partition, _, offset = each.partition(":")
        if not all(part.isascii() and part.isdigit() and len(part) < 20 for part in (partition, offset)):
            raise WrongInput(f"offsets has {each[:40]!r}: write PARTITION:OFFSET,PARTITION:OFFSET")
        if int(partition) > INT32_MAX or int(offset) > INT64_MAX:
            raise WrongInput(f"offsets has {each[:40]!r}: one of the numbers is too large")
        found[int(partition)] = int(offset)
    if not found:
        raise WrongInput("nothing to delete: look at the preview first, which says what there is")
    if len(found) > PARTITIONS_MAX:
        raise WrongInput(f"{len(found):,} partitions are too many at once: at most {PARTITIONS_MAX:,}")
    return found
