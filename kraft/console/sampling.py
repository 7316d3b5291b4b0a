"""Samples the groups that users look at, every ten seconds and as these users, until an hour after the last look."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from kraft.client import ClientClosed, KraftError, OffsetAndMetadata, TopicPartition
from kraft.console.asking import CLIENT_MS
from kraft.console.pages.log_ends import log_ends
from kraft.health.group_history import PARTITIONS_MAX, SAMPLE_S, GroupHistory, Judged, Moment

if TYPE_CHECKING:
    from kraft.console.asking import Asked
    from kraft.console.clients import UserClient

log = structlog.get_logger()

GROUPS_OF_USER_MAX: Final = 20
"""Groups of one user of one cluster. The one that was not looked at for longest makes room for another."""

GROUPS_MAX: Final = 200
"""Groups of all users, whose lines take 35 MiB at most."""

PLACES_MAX: Final = 20_000
"""Partitions of all groups that are judged here, 1.6 KiB each. Of groups above that, the age is not known."""

LOOK_LASTS_S: Final = 3_600.0
"""How long a group is sampled after somebody has looked at it."""

CLIENTS_AT_ONCE: Final = 4
"""Users whose groups are sampled at the same time, each in a thread."""

Key = tuple[str, tuple[str, str], str]
"""Cluster, user, group."""

Committed = Mapping[TopicPartition, OffsetAndMetadata] | KraftError


class Watched:
    """A group that a user looks at."""

    def __init__(self, client: UserClient, *, judges: bool) -> None:
        self.client = client
        self.judges = judges
        """Whether the samples have to say what coordinators do not."""

        self.history = GroupHistory()
        self.looked_s = 0.0
        self.sampled_s = float("-inf")
        self.problem = ""
        """Why there was no sample the last time."""


class Sampling:
    """All groups that are watched. One task samples them, which begins with the first look."""

    def __init__(self) -> None:
        self._watched: dict[Key, Watched] = {}
        self._task: asyncio.Task[None] | None = None
        self._new = asyncio.Event()

    def look(self, asked: Asked, group: str) -> Watched:
        """Watch the group from now on, as whoever asks; return what is known of it."""
        key = (asked.cluster.name, asked.whom, group)
        found = self._watched.pop(key, None)
        if found is None:
            self._make_room(key)
            found = Watched(asked.client, judges=asked.cluster.wire_protocol == "kafka")
            self._new.set()
        # The last login of the user: an earlier one may have ended.
        found.client, found.looked_s = asked.client, time.monotonic()
        self._watched[key] = found
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(asked.threads))
        return found

    def known(self, cluster: str, whom: tuple[str, str], group: str) -> Judged | None:
        """Return what the samples say of a group as a whole, if the user has looked at it lately."""
        watched = self._watched.get((cluster, whom, group))
        return None if watched is None else watched.history.worst(moment())

    def _make_room(self, key: Key) -> None:
        """Forget groups, those first that were not looked at for longest."""
        of_user = [each for each in self._watched if each[:2] == key[:2]]
        if len(of_user) >= GROUPS_OF_USER_MAX:
            del self._watched[of_user[0]]
        elif len(self._watched) >= GROUPS_MAX:
            del self._watched[next(iter(self._watched))]

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, threads: ThreadPoolExecutor) -> None:
        while True:
            self._new.clear()
            try:
                await self._sample_due(threads)
            except Exception as error:
                # Whatever it is: pages are shown without history rather than not at all.
                log.exception("groups not sampled", error=str(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._new.wait(), SAMPLE_S)

    async def _sample_due(self, threads: ThreadPoolExecutor) -> None:
        now_s = time.monotonic()
        due: dict[int, list[Key]] = {}
        for key, each in list(self._watched.items()):
            if now_s - each.looked_s > LOOK_LASTS_S:
                del self._watched[key]
            elif now_s - each.sampled_s > SAMPLE_S - 1:
                due.setdefault(id(each.client), []).append(key)
        free = asyncio.Semaphore(CLIENTS_AT_ONCE)
        await asyncio.gather(*(self._sample(threads, keys, free) for keys in due.values()))

    async def _sample(self, threads: ThreadPoolExecutor, keys: Sequence[Key], free: asyncio.Semaphore) -> None:
        """Sample groups of one client."""
        client, groups = self._watched[keys[0]].client, [key[2] for key in keys]
        async with free:
            try:
                call = partial(sample, client, groups)
                found = await asyncio.get_running_loop().run_in_executor(threads, call)
            except ClientClosed:
                # The session has ended.
                self._forget(keys, client)
                return
            except KraftError as error:
                found = dict.fromkeys(groups, str(error))
        now, now_s = moment(), time.monotonic()
        for key in keys:
            watched = self._watched.get(key)
            if watched is None:
                continue
            outcome = found.get(key[2], "its coordinator did not answer")
            watched.sampled_s = now_s
            if isinstance(outcome, str):
                watched.problem = outcome
            else:
                watched.problem = ""
                others = sum(each.history.places for each in self._watched.values() if each is not watched)
                judges = watched.judges and others + len(outcome[0]) <= PLACES_MAX
                watched.history.add(now, *outcome, judges=judges)

    def _forget(self, keys: Sequence[Key], client: UserClient) -> None:
        for key in keys:
            if key in self._watched and self._watched[key].client is client:
                del self._watched[key]


def moment() -> Moment:
    return Moment(time.time_ns() // 1_000_000, time.monotonic_ns() // 1_000_000)


Sample = tuple[dict[TopicPartition, int], dict[TopicPartition, int]]
"""Committed offsets, and the ends of the logs that are known."""


def sample(client: UserClient, groups: Sequence[str]) -> dict[str, Sample | str]:
    """Return a sample of each group, or why there is none. Raises KraftError."""
    offsets = client.admin.list_offsets_of_many_groups(groups, timeout_ms=CLIENT_MS)
    outcomes = {name: _offsets(each) for name, each in offsets.items()}
    places = {place for each in outcomes.values() if not isinstance(each, str) for place in each}
    found = {place: end for place, end in log_ends(client.admin, places).items() if isinstance(end, int)}
    return {
        name: each if isinstance(each, str) else (each, {place: found[place] for place in each if place in found})
        for name, each in outcomes.items()
    }


def _offsets(outcome: Committed) -> dict[TopicPartition, int] | str:
    if isinstance(outcome, KraftError):
        return str(outcome)
    if len(outcome) > PARTITIONS_MAX:
        return f"the group reads {len(outcome):,} partitions: history is kept of groups with at most {PARTITIONS_MAX:,}"
    return {place: each.offset for place, each in outcome.items()}
