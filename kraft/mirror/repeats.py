"""Whether a start without positions would copy what the target has already; it is refused where that is certain."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from typing import Final

import structlog

from kraft.client.aio import Admin
from kraft.mirror.config import PairConfig
from kraft.mirror.topics import Mirrored, places_of
from kraft.model.errors import KraftError
from kraft.model.ids import TopicPartition
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

NAMES_MAX: Final = 10
"""Topics that are named in a message."""

log = structlog.get_logger()


class CannotMirror(KraftError):
    """A pair that must not begin; one line, with the remedy."""


def positions_gone(pair: PairConfig, positions: str) -> str:
    """Return what is wrong once the positions topic is gone, and what to do."""
    return (
        f"{positions} at {pair.target.alias} was deleted, or created again: stop all workers of this mirror, delete "
        "the mirrored topics at the target, and start it again; or give it another name, as name=..., and have "
        "their records twice"
    )


async def filled_topics(
    topics: Mapping[str, Mirrored], target: Admin, continued: Container[TopicPartition]
) -> list[str]:
    """Return the topics of the target that have records, except for partitions of the source that are continued."""
    places = [there for here, there in places_of(topics).items() if here not in continued]
    firsts, ends = await asyncio.gather(
        target.list_offsets(dict.fromkeys(places, EARLIEST_TIMESTAMP)),
        target.list_offsets(dict.fromkeys(places, LATEST_TIMESTAMP)),
    )
    filled = set()
    for place in places:
        first, end = firsts[place], ends[place]
        if not isinstance(first, KraftError) and not isinstance(end, KraftError) and end.offset > first.offset:
            filled.add(place.topic)
    return sorted(filled)


async def refuse_repeats(
    pair: PairConfig,
    positions: str,
    target: Admin,
    filled: Sequence[str],
    are_there: Callable[[], Awaitable[bool]],
) -> None:
    """Raise CannotMirror if workers have copied to these topics before; log what may be repeated otherwise.

    A worker that copies exactly once leaves its transactional id. `are_there` tells whether the mirror has positions
    by now: another worker may have begun meanwhile.
    """
    if not filled:
        return
    named = ", ".join(filled[:NAMES_MAX]) + (f" and {len(filled) - NAMES_MAX} more" if len(filled) > NAMES_MAX else "")
    first = str(TopicPartition(positions, 0))
    if not isinstance(await _transaction(target, first), KraftError):
        if await are_there():
            return
        raise CannotMirror(
            f"{pair.name}: the positions in {positions} at {pair.target.alias} are gone, and topics have records of "
            f"this mirror, which would be copied again: {named}. Delete these topics there, or give another name, "
            "as name=..., to have their records twice"
        )
    log.warning(
        "no positions found: topics that have records at the target are mirrored from their beginning, and what an "
        "earlier mirror copied there is repeated",
        pair=pair.name,
        positions=positions,
        topics=named,
        remedy="if it was this mirror, stop it, and delete these topics at the target before the next start",
    )


async def _transaction(target: Admin, transactional_id: str) -> object:
    """Return the description of a transactional id, or why there is none."""
    try:
        return (await target.describe_transactions([transactional_id]))[transactional_id]
    except KraftError as error:
        return error
