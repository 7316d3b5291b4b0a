"""Carries changes of topics into groups.

Offsets of deleted topics are deleted. The regular expressions that members subscribe by are resolved to topic names,
and resolved again whenever topics come and go.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Executor
from enum import IntEnum
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

import structlog

from kraft.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from kraft.coordinator.groups.commands import DeleteTopicOffsets, ResolveRegexes
from kraft.coordinator.groups.replicated import Groups, regexes_in_use, unresolved_regexes
from kraft.metadata.image import CurrentImage, CurrentIndex, MetadataImage
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.callbacks import AsyncCall, Fatal
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicId
from kraft.model.name_regex import InvalidRegex, NameRegex
from kraft.runtime.clock import Clock
from kraft.server.coordinator.group_kind import GroupHost
from kraft.server.loop.background import BackgroundTasks
from kraft.server.loop.threads import in_thread

log = structlog.get_logger()

ATTEMPT_S_MAX: Final = 600.0
"""Deadline of one command that deletes the offsets of deleted topics, or takes the topics of regular expressions."""

RETRY_S: Final = 1.0

REGEX_S_MAX: Final = 30.0
"""CPU time for one regular expression on all topics, of a thread that others wait for. A usual one takes 150 ms for
100,000 names.
"""

REGEX_PAUSE_S: Final = 1.0
"""Pause after the regular expressions of a shard were resolved: topics may come and go one by one."""


Describable = Callable[[str, Iterable[str]], Awaitable[frozenset[str] | None]]
"""Returns those of the topics that members of the group may describe; None if it is not known who they are."""


class _RegexesToResolve(IntEnum):
    """The regular expressions to resolve; a later value includes the earlier ones."""

    NONE = 0
    NEW = 1
    ALL = 2
    """First the new ones."""


class TopicChanges:
    def __init__(
        self, image: CurrentImage, index: CurrentIndex, clock: Clock, executor: Executor, fatal: Fatal
    ) -> None:
        """`executor` resolves regular expressions."""
        self._image = image
        self._index = index
        self._clock = clock
        self._executor = executor
        self._tasks = BackgroundTasks(fatal)
        self._one_a_turn = asyncio.Lock()
        self._resolving: dict[GroupHost, _RegexesToResolve] = {}
        """Shards with a task that resolves their expressions, with those that it has to resolve next."""

        self.describable: Describable | None = None
        """None: members may describe every topic."""

        self._unheard: set[str] = set()
        """Groups whose expressions are not resolved before a member is heard."""

        self._refused: WeakKeyDictionary[GroupHost, set[tuple[str, str]]] = WeakKeyDictionary()
        """Expressions whose topics a shard refused, by group; they are resolved again when topics come or go."""

    def metadata_applied(self, hosts: Iterable[GroupHost], before: MetadataImage, after: MetadataImage) -> None:
        if self.describable is not None and before.acls is not after.acls:
            for host in hosts:
                self.resolve_regexes(host, again=True)
        if before.topic_ids is after.topic_ids:
            return
        changed = PersistentMap.of(after.topics).differing_keys(before.topics)
        deleted = {before.topics[each].topic: each for each in changed if each not in after.topics}
        for host in hosts:
            if deleted:
                self._tasks.start(self._delete_offsets(host, deleted), f"deletion of offsets in {host}")
            self.resolve_regexes(host, again=True)

    def member_heard(self, host: GroupHost, group_id: str) -> None:
        """Resolve the expressions of the shard if those of this group waited for a member."""
        if group_id in self._unheard:
            self._unheard.discard(group_id)
            self.resolve_regexes(host, again=True)

    def resolve_regexes(self, host: GroupHost, *, again: bool = False) -> None:
        """Resolve the new expressions of this shard in the background, or all of them again."""
        wanted = _RegexesToResolve.ALL if again else _RegexesToResolve.NEW
        if host in self._resolving:
            self._resolving[host] = max(self._resolving[host], wanted)
        elif _has_regexes(host):
            self._resolving[host] = wanted
            self._tasks.start(self._resolve_until_done(host), f"regular expressions in {host}")

    async def close(self) -> None:
        await self._tasks.close()

    # --- deleted topics --------------------------------------------------------------------------------------

    async def _delete_offsets(self, host: GroupHost, topics: Mapping[str, TopicId]) -> None:
        """Delete the offsets, unless the coordinator moves meanwhile: then they expire. Source: Kafka's coordinator."""
        # Each command makes the first slice of a pass, and all shards here have one to make.
        async with self._one_a_turn:
            await asyncio.sleep(0)
        await _until_done(host, partial(host.decide, DeleteTopicOffsets(topics=topics), ATTEMPT_S_MAX))

    # --- regular expressions ---------------------------------------------------------------------------------

    async def _resolve_until_done(self, host: GroupHost) -> None:
        try:
            while (wanted := self._resolving[host]) is not _RegexesToResolve.NONE:
                self._resolving[host] = _RegexesToResolve.NONE
                if wanted is _RegexesToResolve.ALL:
                    self._refused.pop(host, None)
                await _until_done(host, partial(self._resolve, host, wanted))
                await asyncio.sleep(REGEX_PAUSE_S)
        finally:
            del self._resolving[host]

    async def _resolve(self, host: GroupHost, wanted: _RegexesToResolve) -> None:
        if refused := self._refused.setdefault(host, set()):
            in_use = regexes_in_use(host.running().latest)
            refused.intersection_update((group_id, regex) for group_id, each in in_use.items() for regex in each)
        await self._resolve_each(host, unresolved_regexes)
        if wanted is _RegexesToResolve.ALL:
            await self._resolve_each(host, regexes_in_use)

    async def _resolve_each(self, host: GroupHost, regexes_of: Callable[[Groups], Mapping[str, set[str]]]) -> None:
        for group_id, regexes in regexes_of(host.running().latest).items():
            accepted = frozenset(each for each in regexes if (group_id, each) not in self._refused[host])
            if not accepted:
                continue
            image, version = self._image(), self._index()
            found = await in_thread(self._executor, _matching_topics, accepted, image.topic_ids)
            if given_up := accepted - found.keys():
                self._refuse(host, group_id, given_up, "to match the names of all topics takes too long")
            if (visible := await self._visible(group_id, found)) is None:
                self._unheard.add(group_id)
                continue
            group = host.running().latest.consumer.get(group_id)
            results = {
                regex: ResolvedRegex(topics=topics, version=version, timestamp_ms=self._clock.wall_ms())
                for regex, topics in visible.items()
                if group is not None and _differs(group, regex, topics)
            }
            if results:
                log.debug("regular expressions resolved", group=group_id, regexes=len(results))
                await self._record(host, ResolveRegexes(group_id=group_id, results=results))

    async def _visible(self, group_id: str, found: Mapping[str, frozenset[str]]) -> Mapping[str, frozenset[str]] | None:
        """Return the topics of each expression that the group may see; None before a member of it is heard."""
        if self.describable is None:
            return found
        visible = {}
        for regex, topics in found.items():
            described = await self.describable(group_id, topics)
            if described is None:
                return None
            visible[regex] = described
        return visible

    async def _record(self, host: GroupHost, command: ResolveRegexes) -> None:
        """Have the shard record the topics, unless it refuses them for good. Raises Refusal if a retry may succeed."""
        try:
            await host.decide(command, ATTEMPT_S_MAX)
        except Refusal as refusal:
            if refusal.error_code.retriable:
                raise
            self._refuse(host, command.group_id, command.results, refusal.message)

    def _refuse(self, host: GroupHost, group_id: str, regexes: Iterable[str], reason: str) -> None:
        log.warning("regular expressions not resolved", partition=str(host), group=group_id, reason=reason)
        self._refused[host].update((group_id, regex) for regex in regexes)


def _has_regexes(host: GroupHost) -> bool:
    """Return False during the load, too: all expressions are resolved after it."""
    try:
        return bool(host.running().latest.with_regexes)
    except Refusal:
        return False


def _differs(group: ConsumerGroup, regex: str, topics: frozenset[str]) -> bool:
    known = group.regexes.get(regex)
    return known is None or known.topics != topics


def _matching_topics(regexes: frozenset[str], topics: Mapping[str, TopicId]) -> dict[str, frozenset[str]]:
    """Return the topics that each expression matches, but for those that take too long. Runs in a thread."""
    found = {}
    for text in regexes:
        try:
            regex = NameRegex(text)
        except InvalidRegex:
            # The coordinator refuses members with it, but Kafka may have recorded it.
            found[text] = frozenset[str]()
        else:
            names = _matched(regex, topics)
            if names is not None:
                found[text] = names
    return found


def _matched(regex: NameRegex, topics: Iterable[str]) -> frozenset[str] | None:
    matched = []
    until_s = time.thread_time() + REGEX_S_MAX
    for name in topics:
        if regex.matches(name):
            matched.append(name)
        if time.thread_time() > until_s:
            return None
    return frozenset(matched)


async def _until_done(host: GroupHost, attempt: AsyncCall[Any]) -> None:
    """Repeat the attempt until it succeeds, is refused for good, or this broker no longer coordinates."""
    while True:
        try:
            await attempt()
        except Refusal as refusal:
            if refusal.error_code is ErrorCode.NOT_COORDINATOR:
                return
            if not refusal.error_code.retriable:
                log.warning("coordinator write refused", partition=str(host), reason=refusal.message)
                return
            await asyncio.sleep(RETRY_S)
        else:
            return
