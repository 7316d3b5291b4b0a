"""Log lines about groups: the start and the end of each rebalance, members that come and go, offsets that expire.

However many members or groups there are, few lines are written at once: of each rebalance those of the first members
that come and of the first that go, while its last line counts all of them; and of all groups together so many in a
minute. They are written in turns of the loop that others share.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from typing import Any, Final, assert_never, cast

import structlog
from msgspec import Struct, field

from kraft.coordinator.group_events import (
    DeletedByClient,
    GroupEvent,
    MemberAway,
    MemberEvent,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    OffsetsExpired,
    RebalanceCompleted,
    RebalanceEvent,
    RebalanceStarted,
)
from kraft.coordinator.shard_batches import Happening
from kraft.model.callbacks import NowMs
from kraft.model.groups import MANY_REBALANCES, REBALANCES_WITHIN_MS
from kraft.server.coordinator.rebalance_counts import RebalanceCounts
from kraft.server.loop.backlog import Backlog

log = structlog.get_logger()

SAME_LINES_MAX: Final = 20
"""Lines of a kind, such as `group member joined`, in one rebalance of a group."""

LINES_MAX: Final = 600
"""Lines about all groups in a period. Groups that rebalance all the time do not fill the disk, or hide other lines."""

PERIOD_MS: Final = 60_000

GROUPS_MAX: Final = 10_000
"""Groups whose rebalance may be under way. Of those that another broker coordinates now, no end is heard."""

EVENTS_AT_ONCE: Final = 20
TEXT_MAX: Final = 200


class _Progress(Struct, eq=False, kw_only=True):
    """A group since the end of its last rebalance, in one leader epoch of its partition."""

    leader_epoch: int
    began_ms: int | None = None
    """Wall time of the start; None if there was none, or if another coordinator has seen it."""

    lines: Counter[str] = field(default_factory=Counter)
    """How many there were of each kind."""

    joined: int = 0
    left: int = 0


class GroupLog:
    def __init__(self, backlog: Backlog, monotonic_ms: NowMs, rebalances: RebalanceCounts) -> None:
        """`rebalances` counts those that are reported."""
        self._backlog = backlog
        self._rebalances = rebalances
        self._monotonic_ms = monotonic_ms
        self._waiting: deque[tuple[int, Happening]] = deque()
        self._is_due = False
        self._groups: OrderedDict[str, _Progress] = OrderedDict()
        self._period_began_ms = monotonic_ms()
        self._lines = 0
        self._not_logged = 0

    def report(self, leader_epoch: int, happenings: Sequence[Happening]) -> None:
        """Log these events from the next turn of the loop on, in their order.

        What another coordinator has seen of a group, before this leader epoch, is not known here.
        """
        self._waiting.extend((leader_epoch, each) for each in happenings)
        if self._waiting and not self._is_due:
            self._is_due = True
            self._backlog.add(self._log_some)

    def _log_some(self) -> bool:
        # An error of a line ends this work; the next report begins it again.
        self._is_due = False
        for _ in range(min(EVENTS_AT_ONCE, len(self._waiting))):
            leader_epoch, happening = self._waiting.popleft()
            event = cast(GroupEvent, happening.event)
            if isinstance(event, OffsetsExpired):
                self._log_expiry(event)
            elif isinstance(event, DeletedByClient):
                self._line("group removed", {"group": event.group_id, "reason": "a client has deleted it"})
            else:
                self._log(event, self._progress(event.group_id, leader_epoch), happening.at_ms)
        self._is_due = bool(self._waiting)
        return self._is_due

    def _log_expiry(self, event: OffsetsExpired) -> None:
        facts = {"group": event.group_id, "offsets": event.offsets}
        if event.is_removed:
            self._line("group removed", {**facts, "reason": "it has no members and no offsets any more"})
        else:
            self._line("group offsets expired", facts)

    def _log(self, event: RebalanceEvent, progress: _Progress, at_ms: int) -> None:
        match event:
            case RebalanceStarted():
                self._log_start(event, progress, at_ms)
            case RebalanceCompleted():
                self._log_end(event, progress, at_ms)
            case _:
                self._log_member(event, progress)

    def _log_start(self, event: RebalanceStarted, progress: _Progress, at_ms: int) -> None:
        if self._rebalances.note(event.group_id) % MANY_REBALANCES == 0:
            self._log_many(event)
        facts = {
            "group": event.group_id,
            ("old_generation" if event.is_classic else "epoch"): event.epoch,
            "members": event.members,
            "reason": event.reason,
        }
        if event.is_restart and progress.began_ms is not None:
            self._log_within(progress, "group rebalance restarted", facts)
            return
        progress.began_ms = at_ms
        self._line("group rebalance started", facts)

    def _log_many(self, event: RebalanceStarted) -> None:
        if not self._rebalances.is_to_be_told(event.group_id):
            return
        facts = {
            "group": event.group_id,
            "rebalances": self._rebalances.lately(event.group_id),
            "within_s": REBALANCES_WITHIN_MS // 1_000,
            "members": event.members,
            "latest_reason": event.reason,
            "remedy": "find the member that comes and goes: the lines 'group member joined' and 'removed' name them",
        }
        self._line("group rebalances again and again", facts, is_warning=True)

    def _log_end(self, event: RebalanceCompleted, progress: _Progress, at_ms: int) -> None:
        del self._groups[event.group_id]
        facts: dict[str, Any] = {
            "group": event.group_id,
            ("generation" if event.is_classic else "epoch"): event.epoch,
            "members": event.members,
        }
        if event.partitions is not None:
            facts["partitions"] = event.partitions
        if progress.began_ms is not None:
            # The wall clock may have been set back.
            facts["took_ms"] = max(at_ms - progress.began_ms, 0)
        self._line("group rebalance completed", {**facts, "joined": progress.joined, "left": progress.left})

    def _log_member(self, event: MemberEvent, progress: _Progress) -> None:
        facts: dict[str, Any] = {"group": event.group_id, "member": event.member_id}
        if event.instance_id is not None:
            facts["instance"] = event.instance_id
        match event:
            case MemberJoined():
                progress.joined += 1
                line = "group member joined"
                facts.update(client=event.client_id, host=event.client_host)
            case MemberGone():
                progress.left += 1
                line = "group member left" if event.has_left else "group member removed"
                facts["reason"] = event.reason
            case MemberAway():
                line = "group member away"
                facts["reason"] = "static: its assignment is kept until its session ends"
            case MemberReplaced():
                line = "group member replaced"
                facts["replaced"] = event.replaced_id
            case _:
                assert_never(event)
        self._log_within(progress, line, facts)

    def _progress(self, group_id: str, leader_epoch: int) -> _Progress:
        progress = self._groups.pop(group_id, None)
        if progress is None or progress.leader_epoch != leader_epoch:
            progress = _Progress(leader_epoch=leader_epoch)
        self._groups[group_id] = progress
        if len(self._groups) > GROUPS_MAX:
            self._groups.popitem(last=False)
        return progress

    def _log_within(self, progress: _Progress, line: str, facts: dict[str, Any]) -> None:
        """Log one of the lines between the first and the last of a rebalance."""
        progress.lines[line] += 1
        if progress.lines[line] <= SAME_LINES_MAX:
            self._line(line, facts)

    def _line(self, line: str, facts: dict[str, Any], *, is_warning: bool = False) -> None:
        now_ms = self._monotonic_ms()
        if now_ms - self._period_began_ms >= PERIOD_MS:
            self._period_began_ms, self._lines = now_ms, 0
        if self._lines >= LINES_MAX:
            if not self._not_logged:
                log.info("group lines paused", reason=f"{LINES_MAX} within {PERIOD_MS // 1_000} s")
            self._not_logged += 1
            return
        self._lines += 1
        omitted = {"lines_not_logged": self._not_logged} if self._not_logged else {}
        self._not_logged = 0
        write = log.warning if is_warning else log.info
        write(line, **{name: _short(fact) for name, fact in facts.items()}, **omitted)


def _short(fact: Any) -> Any:
    return f"{fact[:TEXT_MAX]}..." if isinstance(fact, str) and len(fact) > TEXT_MAX else fact
