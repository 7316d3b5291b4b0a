"""A plan of moves: generated, or written by hand; reviewed; and run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.client import KraftError, Refusal, TopicPartition
from kraft.console.asking import CHANGE_CLIENT_MS, CLIENT_MS, Asked, Panel
from kraft.console.forms import Changed, Done, Form, WrongInput
from kraft.model.printable import counted, printable, readable_size
from kraft.moves.assignments import ReassignmentFailed, assignment_of
from kraft.moves.even import EvenSpread, chosen_brokers
from kraft.moves.leaving import CannotDecommission, current_plan
from kraft.moves.planned import (
    MOVES_MAX,
    PlannedMove,
    WrongPlan,
    bytes_to_copy,
    moves_in,
    out_of_service,
    planned,
    stale,
    text_of,
)
from kraft.moves.progress import held_by
from kraft.moves.starting import PlanImpossible, PlanOutdated, refusals_in_words, start

if TYPE_CHECKING:
    from kraft.client import Admin

EVEN: Final = "even"
OFF: Final = "off"
BALANCE: Final = "balance"
WAYS: Final = (BALANCE, EVEN, OFF)

FORM_BYTES_MAX: Final = 512 * 1024
"""A plan of as many partitions as one may have, with long names."""

_RATE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,3})?)\s*(?:([KMG])(?:i?B)?|B)?(?:/s)?", re.IGNORECASE | re.ASCII)
_UNITS: Final = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


class PlanRow(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    now: list[int]
    then: list[int]
    added: list[int]
    removed: list[int]
    copy_bytes: int | None
    """None: no broker said how large the partition is."""


class Plan(Struct, frozen=True, kw_only=True):
    rows: list[PlanRow]
    text: str
    rollback: str
    """The plan that undoes this one."""

    copy_bytes: int
    left_out: int
    """Partitions that would move, too, and do not fit into one plan."""

    under_way: int
    """Partitions that are moving now."""

    warnings: list[str]


class BrokerChoice(Struct, frozen=True, kw_only=True):
    broker_id: int
    rack: str
    in_service: bool
    replicas: int


class Review(Struct, frozen=True, kw_only=True):
    brokers: Panel[list[BrokerChoice]]
    plan: Panel[Plan] | None
    """None: nothing is planned yet."""

    @property
    def status(self) -> int:
        return (self.brokers if self.plan is None else self.plan).status


async def plan(asked: Asked) -> Review:
    """Load the form that generates a plan; and the plan, if the form was sent or there is one."""
    brokers = await asked.panel(lambda: _choices(asked.admin))
    form = asked.form
    if not form.text("plan") and form.text("way") not in WAYS:
        return Review(brokers=brokers, plan=None)
    # Which brokers are in service is asked once, for both.
    if brokers.value is None:
        return Review(brokers=brokers, plan=Panel(problem=brokers.problem, code=brokers.code))
    states = {each.broker_id: each.in_service for each in brokers.value}
    return Review(brokers=brokers, plan=await asked.panel(lambda: _reviewed(asked.admin, form, states)))


def _choices(admin: Admin) -> list[BrokerChoice]:
    return [
        BrokerChoice(broker_id=each.broker_id, rack=each.rack, in_service=not each.fenced, replicas=each.replicas)
        for each in admin.describe_brokers(timeout_ms=CLIENT_MS)
    ]


def _reviewed(admin: Admin, form: Form, states: Mapping[int, bool]) -> Plan:
    with as_wrong_input():
        is_written = bool(form.text("plan"))
        moves = moves_in(form.raw("plan")) if is_written else generated(admin, form)
        shown = moves[:MOVES_MAX]
        under_way = admin.list_partition_reassignments(timeout_ms=CLIENT_MS)
        copied = [each.partition for each in shown if each.added]
        outcomes = admin.describe_log_directories(partitions=copied, timeout_ms=CLIENT_MS) if copied else {}
        sizes = {partition: max(each.size_bytes for each in of.values()) for partition, of in held_by(outcomes).items()}
        warnings = [*(_stale(admin, shown) if is_written else ()), *out_of_service(shown, states)]
        warnings += [f"{each} is moving already" for each in sorted(under_way.keys() & {m.partition for m in shown})]
        return reviewed(shown, sizes, left_out=len(moves) - len(shown), under_way=len(under_way), warnings=warnings)


def _stale(admin: Admin, moves: Sequence[PlannedMove]) -> list[str]:
    topics = admin.find_topics(sorted({each.partition.topic for each in moves}))
    return stale(moves, assignment_of(admin, topics) if topics else {})


def reviewed(
    moves: Sequence[PlannedMove],
    sizes: Mapping[TopicPartition, int],
    *,
    left_out: int = 0,
    under_way: int = 0,
    warnings: Sequence[str] = (),
) -> Plan:
    rows = [
        PlanRow(
            topic=each.partition.topic,
            partition=each.partition.partition,
            now=list(each.now),
            then=list(each.then),
            added=each.added,
            removed=each.removed,
            copy_bytes=bytes_to_copy([each], sizes) if each.partition in sizes or not each.added else None,
        )
        for each in moves
    ]
    back = [PlannedMove(partition=each.partition, now=each.then, then=each.now) for each in moves]
    return Plan(
        rows=rows,
        text=text_of(moves),
        rollback=text_of(back),
        copy_bytes=bytes_to_copy(moves, sizes),
        left_out=left_out,
        under_way=under_way,
        warnings=list(warnings)[:20],
    )


@contextmanager
def as_wrong_input() -> Iterator[None]:
    """Let what is wrong with a plan be an error of whoever sent it."""
    try:
        yield
    except (WrongPlan, ReassignmentFailed, CannotDecommission, PlanImpossible) as error:
        raise WrongInput(str(error)) from None
    except PlanOutdated as error:
        raise Changed(str(error)) from None


# --- generate --------------------------------------------------------------------------------------------------


def generated(admin: Admin, form: Form) -> list[PlannedMove]:
    """Return the plan that the form asks for. Raises WrongInput."""
    named = form.text("topics")
    # None are all.
    topics = matching(named, sorted(admin.list_topics(timeout_ms=CLIENT_MS))) if named else []
    if form.text("way") == OFF:
        leaving = form.number("off", 0, 2**31 - 1)
        found = [
            PlannedMove(partition=each.partition, now=each.replicas, then=each.target)
            for each in current_plan(admin, leaving, topics)
        ]
        return sorted(found, key=lambda each: each.partition)
    if form.text("way") == BALANCE:
        brokers = sorted(each.node_id for each in admin.describe_cluster(topics=(), timeout_ms=CLIENT_MS).brokers)
    else:
        brokers = _brokers(form)
    chosen = chosen_brokers(
        admin,
        brokers,
        rack_aware=not form.flag("ignore_racks"),
        unknown="the page Brokers shows those that are registered, and only those in service can be chosen",
        no_racks="Tick “ignore racks”, or choose brokers that all have one.",
    )
    current = assignment_of(admin, topics)
    by_topic: dict[str, dict[TopicPartition, list[int]]] = {}
    for partition, replicas in current.items():
        by_topic.setdefault(partition.topic, {})[partition] = replicas
    spread = EvenSpread(chosen)
    return [move for of_topic in by_topic.values() for move in planned(of_topic, _proposed(of_topic, spread))]


def _proposed(current: Mapping[TopicPartition, list[int]], spread: EvenSpread) -> dict[TopicPartition, list[int]]:
    try:
        return spread.proposed(current)
    except Refusal as refusal:
        topic = next(iter(current)).topic
        raise WrongInput(f"topic {topic} cannot be spread over these brokers: {refusal.message}") from None


def _brokers(form: Form) -> list[int]:
    texts = [text for each in form.all("brokers") for text in re.split(r"[\s,]+", each) if text]
    if not texts:
        raise WrongInput("brokers: choose those that shall have the replicas")
    if not all(each.isascii() and each.isdigit() and len(each) < 10 for each in texts):
        raise WrongInput("brokers: give ids of brokers, which are whole numbers")
    return sorted({int(each) for each in texts})


def matching(text: str, names: Sequence[str]) -> list[str]:
    """Return the topics that the patterns name; all without any. Raises WrongInput for one that finds nothing."""
    patterns = [each for each in re.split(r"[\s,]+", text) if each]
    if not patterns:
        if not names:
            raise WrongInput("topics: there is none that you may see")
        return list(names)
    found: set[str] = set()
    for pattern in patterns[:100]:
        # Names of topics hold no brackets, which would be patterns, too.
        some = [each for each in names if fnmatchcase(each, pattern.replace("[", "[[]"))]
        if not some:
            raise WrongInput(f"topics: none is called {printable(pattern[:60])!r}, or you may not see it")
        found.update(some)
    return sorted(found)


# --- run -------------------------------------------------------------------------------------------------------


async def run_plan(asked: Asked) -> Done:
    """Start the moves of the plan that was sent, after it has been checked anew."""
    form = asked.form
    with as_wrong_input():
        moves = moves_in(form.raw("plan"))
    rate = bytes_per_second(form.text("throttle"))

    def make() -> Done:
        with asked.client.elsewhere(asked.cluster.bootstrap_servers, CHANGE_CLIENT_MS) as admin, as_wrong_input():
            return _started(admin, asked, moves, rate)

    return await asked.change(make)


def _started(admin: Admin, asked: Asked, moves: Sequence[PlannedMove], rate: int | None) -> Done:
    try:
        started = start(admin, moves, rate, in_addition=asked.form.flag("in_addition"))
    except (PlanOutdated, PlanImpossible):
        raise
    except Refusal as refusal:
        raise Refusal(refusal.error_code, f"{refusal.message}{_left(rate)}") from refusal
    except KraftError as error:
        raise KraftError(f"{error}: whether the moves were started is not known; look at the page Moves") from error
    refused = refusals_in_words(started.refused)
    if not started.partitions:
        first = next(iter(started.refused.values()))
        raise Refusal(first.error_code, f"no move was started: {refused}{_left(rate)}")
    how = "" if rate is None else f", throttled to {readable_size(rate)} each second for each broker"
    sentences = [f"{counted(len(started.partitions), 'move was', 'moves were')} started{how}"]
    sentences += [f"refused: {refused}"] if refused else []
    sentences += started.replaced[:5]
    if rate is not None:
        sentences.append("Come back to this page when they are complete, and remove the throttle: it stays until then")
    names = set(started.partitions)
    back = [
        PlannedMove(partition=each.partition, now=each.then, then=each.now) for each in moves if each.partition in names
    ]
    return Done(
        where=f"/clusters/{asked.cluster.name}/moves",
        said=". ".join(sentences) + ".",
        value={
            "started": list(map(str, started.partitions)),
            "refused": {str(each): refusal.message for each, refusal in started.refused.items()},
            "throttle_bytes": rate,
            "rollback": text_of(back),
        },
    )


def _left(rate: int | None) -> str:
    return "" if rate is None else "; a throttle may be set already: the page Moves shows it, and removes it"


def bytes_per_second(text: str) -> int | None:
    """Return the rate that somebody wrote, such as 10 MiB or 5000000; None for no throttle. Raises WrongInput."""
    if not text:
        return None
    found = _RATE.fullmatch(text)
    rate = 0 if found is None else int(float(found[1]) * _UNITS[(found[2] or "").upper()])
    if not 1 <= rate <= THROTTLE_BYTES_MAX:
        raise WrongInput(f"throttle: {printable(text[:30])!r} is no rate: give bytes each second, such as 10 MiB")
    return rate


THROTTLE_BYTES_MAX: Final = 10**15
"""Bytes each second; more than any network carries."""
