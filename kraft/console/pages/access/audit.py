"""The audit: the newest lines of the topic __audit, read as whoever logged in."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.client import Consumer, ErrorCode, KraftError, Refusal, TopicPartition
from kraft.console.asking import CLIENT_MS, ROWS_MAX, Asked, Panel
from kraft.console.forms import Form
from kraft.console.pages.access.audit_lines import EVENTS, RESULTS, AuditLine, Sought, line_of, moment_ms
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

if TYPE_CHECKING:
    from kraft.client import ConsumerRecord

TOPIC: Final = "__audit"

PARTITION: Final = TopicPartition(TOPIC, 0)
"""Brokers make no other."""

READ_S: Final = 2.0
"""Longest time that lines are read for: what was not reached then, the page says."""

FIRST_CHUNK_RECORDS: Final = 500
CHUNK_RECORDS: Final = 2_000
"""Lines that are read at once, from the newest back; the first ones are most often enough."""

READ_RECORDS_MAX: Final = 20_000
"""Lines that are looked through for one page."""

NOT_SWITCHED_ON: Final = (
    "there is no topic __audit: set audit.log.topic.enable=true in the file of each broker of Kraft, restart it, and"
    " allow those who may look at it READ on the topic. Apache Kafka's brokers write no such topic: what they audit is"
    " in their log files (kafka-authorizer.log)"
)


class Lines(Struct, frozen=True, kw_only=True):
    lines: list[AuditLine]
    """Newest first."""

    looked_through: int
    older_than: int | None
    """Offset below which nothing was looked at; None if all was."""


class Audit(Struct, frozen=True, kw_only=True):
    audit: Panel[Lines]
    filters: dict[str, str]
    events: tuple[str, ...] = EVENTS
    results: tuple[str, ...] = RESULTS

    @property
    def status(self) -> int:
        return self.audit.status


async def audit(asked: Asked) -> Audit:
    names = ("principal", "operation", "result", "event", "q", "since", "until", "before")
    filters = {each: asked.form.text(each) for each in names}
    return Audit(
        audit=await asked.panel(lambda: _lines(asked)),
        filters={name: value for name, value in filters.items() if value},
    )


def sought_by(form: Form) -> Sought:
    """Return what a form looks for. Raises WrongInput."""
    return Sought(
        principal=form.text("principal")[:250],
        operation=form.text("operation")[:100],
        result=form.text("result")[:100],
        event=form.text("event")[:40],
        text=form.text("q")[:250],
        since_ms=moment_ms(form.text("since"), "since"),
        until_ms=moment_ms(form.text("until"), "until"),
    )


def _lines(asked: Asked) -> Lines:
    form = asked.form
    sought, before = sought_by(form), form.number("before", 0, 2**63 - 1, 2**63 - 1)
    _check_exists(asked)
    start, end = _bounds(asked, sought)
    end = min(end, before)
    deadline = time.monotonic() + READ_S
    found: list[AuditLine] = []
    looked_through, chunk = 0, FIRST_CHUNK_RECORDS
    with asked.client.consumer(auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.assign([PARTITION])
        while start < end and len(found) < ROWS_MAX and looked_through < READ_RECORDS_MAX:
            from_ = max(start, end - chunk)
            records = _read(consumer, from_, end, deadline)
            if records is None:
                break
            for each in reversed(records):
                if len(found) == ROWS_MAX:
                    break
                looked_through, end = looked_through + 1, each.offset
                line = line_of(each.value, each.offset)
                if sought.finds(line):
                    found.append(line)
            else:
                # Offsets without records end here, too.
                end, chunk = from_, CHUNK_RECORDS
    return Lines(lines=found, looked_through=looked_through, older_than=end if start < end else None)


def _check_exists(asked: Asked) -> None:
    try:
        asked.admin.describe_topics([TOPIC], timeout_ms=CLIENT_MS)
    except Refusal as refusal:
        if refusal.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_SWITCHED_ON) from None
        raise


def _bounds(asked: Asked, sought: Sought) -> tuple[int, int]:
    """Return the first offset that may be of the time that is sought, and the one behind the last."""
    start = _offset(asked, EARLIEST_TIMESTAMP if sought.since_ms is None else sought.since_ms)
    end = _offset(asked, LATEST_TIMESTAMP if sought.until_ms is None else sought.until_ms)
    last = end if sought.until_ms is None and end is not None else _offset(asked, LATEST_TIMESTAMP)
    last = 0 if last is None else last
    return (last if start is None else start), (last if end is None else end)


def _offset(asked: Asked, timestamp_ms: int) -> int | None:
    """Return the offset at this time; None if all records are older."""
    found = asked.admin.list_offsets({PARTITION: timestamp_ms}, timeout_ms=CLIENT_MS // 2)[PARTITION]
    if isinstance(found, KraftError):
        raise found
    return None if found.offset < 0 else found.offset


def _read(consumer: Consumer, start: int, end: int, deadline: float) -> list[ConsumerRecord] | None:
    """Return all records between two offsets; None if there is no time for them: the newest would be missing."""
    consumer.seek(PARTITION, start)
    found: list[ConsumerRecord] = []
    while start < end:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return None
        records = consumer.poll(min(500, int(left_s * 1_000) + 1))
        found += [each for each in records if each.offset < end]
        # Offsets without records, as of aborted transactions, move the position, too.
        start = consumer.position(PARTITION)
    return found
