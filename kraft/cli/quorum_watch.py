"""Tells why a command waits, when the reason is that no controller is active."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final

from kraft.cli.options import open_admin
from kraft.cli.printing import Say, say
from kraft.model.callbacks import Condition

if TYPE_CHECKING:
    from kraft.client.model.errors import NoActiveController

LOOK_EVERY_S: Final = 0.3
"""A look takes up to 1.4 s where no controller is active, and the user is told within 2 s."""

LOOK_MAX_MS: Final = 2_000

IDLE_LOOK_EVERY_S: Final = 5.0
"""Longest interval of looks by a command that may wait for days although nothing is wrong."""


class QuorumWatch:
    """Looks at the metadata quorum while a block waits; says once, for each loss, that no controller is active.

    If the block then ends with an error that an election could have prevented, raises NoActiveController in its place.
    """

    def __init__(
        self,
        describe_quorum: Callable[[], object],
        say: Say = say,
        is_waiting: Condition = lambda: True,
        *,
        every_s_max: float | None = None,
    ) -> None:
        """`describe_quorum` raises NoActiveController if there is none. All callables are called in another thread.

        With `every_s_max`, the interval doubles up to it while the block waits and a controller is active.
        """
        self._every_s_max = every_s_max
        self._describe_quorum = describe_quorum
        self._say = say
        self._is_waiting = is_waiting
        self._inactive: NoActiveController | None = None
        self._has_said = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="quorum watch", daemon=True)

    def __enter__(self) -> QuorumWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A look that is under way is not waited for: the command goes on.
        self._ended.set()
        if self._inactive is not None and error is not None and _may_be_for_want_of_an_election(error):
            raise self._inactive from error

    def _watch(self) -> None:
        every_s = LOOK_EVERY_S
        while not self._ended.wait(every_s):
            every_s = LOOK_EVERY_S if self._every_s_max is None else min(2 * every_s, self._every_s_max)
            if self._is_waiting():
                self._look()
            else:
                every_s = LOOK_EVERY_S

    def _look(self) -> None:
        from kraft.client.model.errors import NoActiveController

        inactive = None
        try:
            self._describe_quorum()
        except NoActiveController as error:
            inactive = error
        except Exception:  # noqa: BLE001  It says nothing about the quorum, and the command reports its own errors.
            return
        self._inactive = inactive
        if inactive is None:
            self._has_said = False
        elif not self._has_said and not self._ended.is_set():
            self._has_said = True
            self._say(f"{inactive.message}; trying again")


@contextmanager
def quorum_watch(
    bootstrap_server: str, say: Say = say, is_waiting: Condition = lambda: True, *, every_s_max: float | None = None
) -> Iterator[None]:
    """Watch the quorum while the block runs, by asking the brokers at these addresses."""
    # One client for all looks: each client warns of brokers that do not answer.
    admin = open_admin(bootstrap_server, LOOK_MAX_MS)
    describe_quorum = partial(admin.describe_quorum, wait_for_leader=False)
    try:
        with QuorumWatch(describe_quorum, say, is_waiting, every_s_max=every_s_max):
            yield
    finally:
        admin.close()


def _may_be_for_want_of_an_election(error: BaseException) -> bool:
    from kraft.client import Refusal
    from kraft.client.cluster.any_broker import is_transient
    from kraft.rpc.peers import Unreachable

    return isinstance(error, Unreachable) or (isinstance(error, Refusal) and is_transient(error.error_code))
