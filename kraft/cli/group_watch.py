"""Tells why a member of a group has no partitions yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kraft.cli.options import open_admin
from kraft.cli.printing import Say, say
from kraft.model.callbacks import Condition
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.client import GroupDescription
    from kraft.client.sans_io.group.descriptions import GroupMember

LOOK_EVERY_S: Final = 1.5
"""Most members get partitions sooner. A look takes up to as long again where the coordinator is missing."""

LOOK_MAX_MS: Final = 1_500

THREAD_NAME: Final = "group watch"

_REBALANCES: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})
"""States of classic groups in which members wait for each other."""

_ASSIGNING: Final = "Assigning"
"""State of a consumer group whose target assignment does not count all of its members yet."""


class GroupWatch:
    """Looks at a group while a block waits for partitions; says each reason once."""

    def __init__(
        self, group_id: str, describe: Callable[[], GroupDescription], is_waiting: Condition, say: Say = say
    ) -> None:
        """`describe` may raise any error. All callables are called in another thread."""
        self._group_id = group_id
        self._describe = describe
        self._is_waiting = is_waiting
        self._say = say
        self._said: set[object] = set()
        """Reasons that the group gave, and kinds of errors."""
        self.problem: str | None = None
        """Why the group could not be described at the last look; None if it could, or does not exist."""
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[GroupWatch]:
        """Look until the end of the block. A look that is under way then is not waited for."""
        threading.Thread(target=self._watch, name=THREAD_NAME, daemon=True).start()
        try:
            yield self
        finally:
            self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            if self._is_waiting():
                self._look()

    def _look(self) -> None:
        kind: object
        try:
            reason = kind = why_waiting(self._describe())
            self.problem = None
        except Exception as error:  # noqa: BLE001  The watch is for the user: it goes on, and says what it met.
            reason, kind = self._of_error(error), _kind(error)
            self.problem = reason
        if reason is not None and kind not in self._said and self._is_waiting() and not self._ended.is_set():
            self._said.add(kind)
            self._say(f"kraft: {reason}")

    def _of_error(self, error: Exception) -> str | None:
        """Return what is to be said of a look that failed; None for nothing."""
        from kraft.client import ErrorCode, Refusal
        from kraft.client.cluster.any_broker import NoBrokerReachable

        if isinstance(error, NoBrokerReachable):
            return f"the state of group {self._group_id!r} is unknown: no broker answers"
        if isinstance(error, Refusal) and error.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        if isinstance(error, Refusal) and error.error_code.retriable:
            return f"group {self._group_id!r} has no coordinator: {error}"
        return f"the state of group {self._group_id!r} is unknown: {error}"


@contextmanager
def group_watch(bootstrap_server: str, group_id: str, is_waiting: Condition) -> Iterator[GroupWatch]:
    """Watch the group while the block runs, by asking the brokers at these addresses."""
    # One client for all looks: each client warns of brokers that do not answer.
    admin = open_admin(bootstrap_server, LOOK_MAX_MS)

    def describe() -> GroupDescription:
        (described,) = admin.describe_consumer_groups([group_id])
        return described

    try:
        with GroupWatch(group_id, describe, is_waiting).running() as watch:
            yield watch
    finally:
        admin.close()


def _kind(error: Exception) -> object:
    """Return what is the same for errors whose texts differ only in times and addresses."""
    from kraft.client import Refusal

    return error.error_code if isinstance(error, Refusal) else type(error)


def why_waiting(group: GroupDescription) -> str | None:
    """Return why a member of the group has no partitions; None if the group gives no reason."""
    name = f"group {group.group_id!r}"
    gone = "one that ended without leaving is removed when its session ends, after session.timeout.ms"
    if group.state in _REBALANCES:
        return f"waiting for all members of {name} to join again, {_named(group.members)}; {gone}"
    if late := [each for each in group.members if each.target is not None and set(each.assignment) - set(each.target)]:
        return f"waiting for partitions of {name} that have to be given up by {_named(late)}; {gone}"
    if group.state == _ASSIGNING:
        return f"waiting for a new assignment of {name}, which is computed when no more members join"
    readers = [each for each in group.members if each.assignment]
    if readers and any(not (each.assignment or each.target) for each in group.members):
        return f"{name} has more members than partitions: all are read by {_named(readers)}"
    return None


def _named(members: Sequence[GroupMember]) -> str:
    shown = ", ".join(f"{each.client_id} on {each.host.lstrip('/')}" for each in members[:3])
    return f"{counted(len(members), 'member')} ({shown}{', ...' if len(members) > 3 else ''})"
