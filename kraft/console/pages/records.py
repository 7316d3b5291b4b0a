"""Records of a topic: a page of them, one of them, and the live tail."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

from msgspec import Struct

from kraft.console.asking import Asked, Panel
from kraft.console.forms import WrongInput
from kraft.console.records.browsing import Found, browse
from kraft.console.records.decoding import FORMATS
from kraft.console.records.rows import Sight
from kraft.console.records.single import One, one
from kraft.console.records.tailing import followed
from kraft.console.records.viewing import Formats, MayNotView, check
from kraft.console.records.wanted import OFFSET_MAX, PARTITION_MAX, Wanted, wanted_of
from kraft.console.streams import Event
from kraft.model.printable import printable

T = TypeVar("T")

FORBIDDEN = "VIEWING_AUTHORIZATION_FAILED"
"""The console's own; brokers know no such permission."""


class Records(Struct, frozen=True, kw_only=True):
    topic: str
    query: dict[str, str]
    """The fields that were asked for, without those that are as by default."""

    formats: list[str]
    records: Panel[Found]

    @property
    def status(self) -> int:
        return self.records.status


class Record(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    offset: int
    query: dict[str, str]
    formats: list[str]
    record: Panel[One]

    @property
    def status(self) -> int:
        return self.record.status


class TailPage(Struct, frozen=True, kw_only=True):
    """The page of the live tail, which its script fills."""

    topic: str
    query: dict[str, str]
    formats: list[str]
    may: Panel[bool]

    @property
    def status(self) -> int:
        return self.may.status


async def records(asked: Asked) -> Records:
    topic = asked.path["topic"]
    query, found = await _checked(asked, lambda wanted, sight: browse(asked, topic, wanted, sight))
    return Records(topic=topic, query=query, formats=list(FORMATS), records=found)


async def record(asked: Asked) -> Record:
    topic = asked.path["topic"]
    partition, offset = _place(asked.path["partition"], PARTITION_MAX), _place(asked.path["offset"], OFFSET_MAX)
    if partition is None or offset is None:
        query: dict[str, str] = {}
        found: Panel[One] = _wrong("the address of a record ends in its partition and its offset, whole numbers")
    else:
        number, at = partition, offset
        query, found = await _checked(asked, lambda wanted, sight: one(asked, topic, number, at, wanted, sight))
    return Record(
        topic=topic,
        partition=partition or 0,
        offset=offset or 0,
        query=query,
        formats=list(FORMATS),
        record=found,
    )


async def tail_page(asked: Asked) -> TailPage:
    query, may = await _checked(asked, lambda wanted, sight: True)
    return TailPage(topic=asked.path["topic"], query=query, formats=list(FORMATS), may=may)


async def tail(asked: Asked) -> AsyncGenerator[Event, None]:
    topic = asked.path["topic"]
    try:
        wanted = wanted_of(asked.form)
        sight = sight_of(asked, wanted)
    except (WrongInput, MayNotView) as error:
        yield Event(name="refused", data=printable(str(error)))
        return
    async for event in followed(asked, topic, wanted, sight):
        yield event


async def _checked(asked: Asked, read: Callable[[Wanted, Sight], T]) -> tuple[dict[str, str], Panel[T]]:
    """Return the fields that were asked for, and what is read if they can be used and the user may view it."""
    try:
        wanted = wanted_of(asked.form)
    except WrongInput as error:
        return dict(asked.query), _wrong(str(error))
    try:
        sight = sight_of(asked, wanted)
    except MayNotView as error:
        return wanted.query(), Panel(problem=printable(str(error)), code=FORBIDDEN)

    def call() -> Panel[T]:
        try:
            return Panel(value=read(wanted, sight))
        except WrongInput as error:
            return _wrong(str(error))

    found = await asked.panel(call)
    return wanted.query(), found.value if found.value is not None else Panel(problem=found.problem, code=found.code)


def sight_of(asked: Asked, wanted: Wanted) -> Sight:
    """Return how the user sees records of the topic. Raises MayNotView."""
    cluster, topic = asked.cluster, asked.path["topic"]
    permission = cluster.viewing.permission(asked.user, asked.claims, topic)
    check(permission, cluster.name, topic)
    return Sight(
        permission=permission,
        registry=asked.state.registries.of(cluster.name, cluster.registry),
        formats=Formats(key=wanted.key_format, value=wanted.value_format),
    )


def _wrong(text: str) -> Panel[T]:
    return Panel(problem=printable(text), code="INVALID_REQUEST")


def _place(text: str, highest: int) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) < 20
    return int(text) if is_number and int(text) <= highest else None
