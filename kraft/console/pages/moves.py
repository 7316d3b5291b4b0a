"""Moves of partitions that are under way, and throttles that were left when they ended."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.client import KraftError, TopicPartition
from kraft.console.asking import CHANGE_CLIENT_MS, CLIENT_MS, Asked, Paged, Panel, Wanted, wanted
from kraft.console.forms import Changed, Done, WrongInput
from kraft.model.printable import counted, readable_size
from kraft.moves.planned import MOVES_MAX, named_partitions
from kraft.moves.progress import Move, Progress, gather, throttled
from kraft.moves.starting import PlanOutdated, cancel, finish, refusals_in_words
from kraft.moves.throttles import (
    DIRECTORIES_RATE,
    RATES,
    brokers_moving_directories,
    configs_of_topics,
    in_words,
    left_in_words,
    rates_of,
)

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.console.moves_seen import MovesSeen, Seen
    from kraft.moves.throttles import RemovedThrottles

PROGRESS: Final = "progress"
THROTTLES: Final = "throttles"

_SAID_MAX: Final = 900

_RATE_MS: Final = 5_000
"""How long a move is watched before its end is foretold."""

BROKERS_MAX: Final = 50
"""Brokers that are asked for their rates."""

_AT_ONCE: Final = 8
"""Brokers that are asked at the same time."""


class MoveRow(Struct, frozen=True, kw_only=True):
    move: Move
    seen_ms: int | None
    """For how long the console has seen it move."""

    left_ms: int | None
    """How long it takes still, at the rate since then; None if that is not known."""


class Moving(Struct, frozen=True, kw_only=True):
    moves: Paged[MoveRow]
    copied_bytes: int
    to_copy_bytes: int
    silent: list[int]
    """Brokers that did not say how much they hold."""

    @property
    def percent(self) -> int:
        return self.copied_bytes * 100 // self.to_copy_bytes if self.to_copy_bytes else 0


class Throttles(Struct, frozen=True, kw_only=True):
    """Throttled partitions that do not move, topics whose replicas are all listed, and the rates of brokers."""

    over: list[str]
    whole_topics: list[str]
    rates: list[str]
    is_moving: bool
    is_left: bool
    """Whether a throttle is set that no move under way needs."""


class Moves(Struct, frozen=True, kw_only=True):
    """`progress` or `throttles` is missing where only the other one was asked for."""

    moving: Panel[Moving] | None
    throttles: Panel[Throttles] | None

    @property
    def status(self) -> int:
        found = self.moving or self.throttles
        return 200 if found is None else found.status


async def moves(asked: Asked) -> Moves:
    """Load the page, or the part of it that refreshes itself."""
    part, shown = asked.query.get("part", ""), wanted(asked.query, ("name",))
    admin, seen, cluster = asked.admin, asked.state.moves, asked.cluster.name

    def progress() -> Moving:
        return moving_of(gather(admin, CLIENT_MS), seen, cluster, shown, time.monotonic_ns() // 1_000_000)

    async def moving() -> Panel[Moving] | None:
        return None if part == THROTTLES else await asked.panel(progress)

    async def throttles() -> Panel[Throttles] | None:
        return None if part == PROGRESS else await asked.panel(lambda: _throttles(admin))

    found_moving, found_throttles = await asyncio.gather(moving(), throttles())
    return Moves(moving=found_moving, throttles=found_throttles)


def moving_of(progress: Progress, seen: MovesSeen, cluster: str, shown: Wanted, now_ms: int) -> Moving:
    copied = {TopicPartition(each.topic, each.partition): each.copied_bytes for each in progress.moves}
    since = seen.seen(cluster, copied, now_ms)
    rows = []
    for each in progress.moves:
        found = since.get(TopicPartition(each.topic, each.partition))
        seen_ms = None if found is None else now_ms - found.since_ms
        rows.append(MoveRow(move=each, seen_ms=seen_ms, left_ms=_left_ms(each, found, now_ms)))
    return Moving(
        moves=shown.shown([each for each in rows if shown.matches(each.move.name)], len(rows)),
        copied_bytes=sum(each.copied_bytes for each in progress.moves),
        to_copy_bytes=sum(each.to_copy_bytes for each in progress.moves),
        silent=progress.silent,
    )


def _left_ms(move: Move, seen: Seen | None, now_ms: int) -> int | None:
    if seen is None or now_ms - seen.since_ms < _RATE_MS or move.copied_bytes <= seen.copied_bytes:
        return None
    left_bytes = move.to_copy_bytes - move.copied_bytes
    return left_bytes * (now_ms - seen.since_ms) // (move.copied_bytes - seen.copied_bytes)


def _throttles(admin: Admin) -> Throttles:
    # In this order: what moves after it was found throttled is not called forgotten.
    configs = configs_of_topics(admin)
    under_way = admin.list_partition_reassignments(timeout_ms=CLIENT_MS)
    found = throttled(configs, under_way)
    in_service = sorted(each.node_id for each in admin.describe_cluster(topics=(), timeout_ms=CLIENT_MS).brokers)
    by_rate: dict[tuple[str, str], list[int]] = {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        # A broker that hangs holds up one of the threads only.
        for broker, rates in zip(in_service, pool.map(partial(_rates, admin), in_service[:BROKERS_MAX]), strict=False):
            for rate in rates.items():
                by_rate.setdefault(rate, []).append(broker)
    replicating = bool(under_way or found.whole_topics or found.over)
    between = brokers_moving_directories(admin) if any(key == DIRECTORIES_RATE for key, _ in by_rate) else set()
    # A rate is needed by what is listed, and that of directories by brokers that move replicas between theirs.
    idle = any(
        set(brokers) - between if key == DIRECTORIES_RATE else not replicating for (key, _), brokers in by_rate.items()
    )
    return Throttles(
        over=list(map(str, found.over)),
        whole_topics=found.whole_topics,
        rates=[_rate(key, value, brokers) for (key, value), brokers in sorted(by_rate.items())],
        is_moving=bool(under_way or between),
        is_left=bool(found.over) or idle,
    )


def _rates(admin: Admin, broker: int) -> dict[str, str]:
    return rates_of(admin, broker, RATES) or {}


def _rate(key: str, value: str, brokers: list[int]) -> str:
    words = f" ({readable_size(int(value))} each second)" if value.isdigit() and len(value) < 20 else ""
    listed = ", ".join(map(str, brokers))
    return f"{key}={value}{words} on broker{'' if len(brokers) == 1 else 's'} {listed}"


# --- changes ---------------------------------------------------------------------------------------------------


async def change_moves(asked: Asked) -> Done:
    """Cancel moves, or remove the throttles of those that are over."""
    what = asked.form.text("do")
    if what not in ("cancel", "finish"):
        raise WrongInput("do: say what to do, cancel or finish")
    text = " ".join(asked.form.all("partitions"))

    def make() -> Done:
        with asked.client.elsewhere(asked.cluster.bootstrap_servers, CHANGE_CLIENT_MS) as admin:
            return _cancelled(admin, asked, text) if what == "cancel" else _finished(admin, asked, text)

    return await asked.change(make)


def _cancelled(admin: Admin, asked: Asked, text: str) -> Done:
    under_way = admin.list_partition_reassignments()
    names = named_partitions(text, under_way) if text.strip() else sorted(under_way)
    if not names:
        raise Changed("none of these partitions is moving any more: the moves are complete, or somebody cancelled them")
    outcome = cancel(admin, names[:MOVES_MAX])
    if outcome.refused and not outcome.partitions:
        raise next(iter(outcome.refused.values()))
    said = f"{counted(len(outcome.partitions), 'move was', 'moves were')} cancelled"
    if outcome.refused:
        said += f"; refused: {refusals_in_words(outcome.refused)}"
    return _done(asked, said, outcome.removed, {"cancelled": list(map(str, outcome.partitions))})


def _finished(admin: Admin, asked: Asked, text: str) -> Done:
    configs = configs_of_topics(admin)
    over = throttled(configs, ()).over
    names = named_partitions(text, over) if text.strip() else over
    if text.strip() and not names:
        raise Changed("none of these partitions is throttled any more: somebody else has removed the throttles")
    try:
        removed = finish(admin, names)
    except PlanOutdated as error:
        raise Changed(str(error)) from None
    except KraftError as error:
        error.add_note("throttles may be left")
        raise
    said = "The moves are over" if removed.topics or removed.brokers else "Nothing was removed"
    return _done(asked, said, removed, {})


def _done(asked: Asked, said: str, removed: RemovedThrottles, value: dict[str, object]) -> Done:
    # What is cleared is named in the lines that follow, with its values.
    lines = [each.removesuffix(".") for each in in_words(removed) if not each.startswith("Clearing")]
    sentences = [said, *lines, *left_in_words(removed)]
    text = ". ".join(sentences)
    return Done(
        where=f"/clusters/{asked.cluster.name}/moves",
        said=(text if len(text) < _SAID_MAX else text[:_SAID_MAX] + " …") + ".",
        value={
            **value,
            "removed_from_topics": removed.topics,
            "removed_from_brokers": removed.brokers,
            "kept_on_topics": removed.kept,
            "kept_on_brokers": removed.rates_kept,
        },
    )
