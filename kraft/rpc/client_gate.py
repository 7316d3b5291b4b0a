"""Admits the calls of clients to a listener where they log in, and ends what they have open with their session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct, field

from kraft.model.principal import ANONYMOUS, Principal
from kraft.rpc.pace import Pace
from kraft.rpc.session_tokens import NotLoggedIn, SessionOver, SessionTokens
from kraft.sasl.login import Session

T = TypeVar("T")

PrincipalOf: TypeAlias = Callable[[Mapping[str, Iterable[bytes]]], Principal]
"""Returns whom a certificate stands for, from what gRPC says of a connection with TLS."""

CHECKED_AT_ONCE_MAX: Final = 1_000
"""Calls that are looked at in one turn of the loop after a change of users, each of which takes some microseconds."""

ENDED_COUNT: Final = 20
"""A call that ends counts as so many: its tasks take a tenth of a millisecond in the next turns."""

NODE: Final = "Node"
"""The kind of the principal of a node that introduced itself."""


class Caller(Struct, frozen=True, kw_only=True):
    """Who made a call, and where it arrived."""

    principal: Principal = ANONYMOUS
    listener: str = ""
    peer: str = ""
    """Its address, formatted for messages."""

    client_id: str = ""
    """What the client calls itself; empty if it does not say."""

    pace: Pace = field(default_factory=Pace)
    """That of this call."""

    @property
    def is_node(self) -> bool:
        return self.principal.kind == NODE


NOBODY: Final = Caller()

CALLER: Final[ContextVar[Caller]] = ContextVar("CALLER", default=NOBODY)
"""The caller of the call that the task answers: gRPC gives a call to its handler with no place to note it."""


class ClientGate:
    """One listener with SASL."""

    def __init__(self, tokens: SessionTokens, login_needed: str) -> None:
        """`login_needed` is what a client without a session is told: what is missing."""
        self._tokens = tokens
        self._login_needed = login_needed
        self._open: set[SessionMessages] = set()
        self._unchecked: list[SessionMessages] = []
        """Those that were open when users changed, and have not been looked at since."""

    def admit(self, metadata: Iterable[tuple[str, Any]]) -> Session:
        """Return the session that a call shows. Raises NotLoggedIn."""
        session = self._tokens.shown_by(metadata)
        if session is None:
            raise NotLoggedIn(self._login_needed)
        return session

    @contextmanager
    def messages(self, messages: AsyncIterator[bytes], session: Session) -> Iterator[SessionMessages]:
        """Give the messages of a call of this session, which end with it."""
        opened = SessionMessages(messages, session, self._tokens)
        self._open.add(opened)
        try:
            yield opened
        finally:
            self._open.discard(opened)

    def users_changed(self) -> None:
        """End what clients have open whose sessions must not go on, in this turn of the loop and the next ones."""
        is_checking = bool(self._unchecked)
        self._unchecked = list(self._open)
        if not is_checking:
            self._check_some()

    def _check_some(self) -> None:
        work = 0
        while self._unchecked and work < CHECKED_AT_ONCE_MAX:
            work += ENDED_COUNT if self._unchecked.pop().end_if_withdrawn() else 1
        if self._unchecked:
            asyncio.get_running_loop().call_soon(self._check_some)


class SessionMessages:
    """The messages of one call, as bytes. Raises SessionOver instead of the first one after the session's end."""

    def __init__(self, messages: AsyncIterator[bytes], session: Session, tokens: SessionTokens) -> None:
        self._messages = messages
        self._session = session
        self._tokens = tokens
        self._waiting: set[asyncio.Task[Any] | None] = set()
        """Tasks that wait in `while_valid`."""

        self._is_withdrawn = False

    def __aiter__(self) -> SessionMessages:
        return self

    async def __anext__(self) -> bytes:
        message = await self.while_valid(self._messages.__anext__)
        self._tokens.check(self._session)
        return message

    async def while_valid(self, begin: Callable[[], Awaitable[T]]) -> T:
        """Return the outcome. Raises SessionOver once the session is withdrawn, without waiting any longer."""
        self._check_withdrawn()
        task = asyncio.current_task()
        is_first = task not in self._waiting
        self._waiting.add(task)
        try:
            outcome = await begin()
        except asyncio.CancelledError:
            if not self._is_withdrawn or task is None or task.uncancel() > 0:
                raise
            raise SessionOver from None
        finally:
            if is_first:
                self._waiting.discard(task)
        self._check_withdrawn()
        return outcome

    def _check_withdrawn(self) -> None:
        if self._is_withdrawn:
            raise SessionOver

    def end_if_withdrawn(self) -> bool:
        """Wake up the tasks that wait, if the session must not go on. Return whether that is so."""
        if self._is_withdrawn or not self._tokens.is_withdrawn(self._session):
            return False
        self._is_withdrawn = True
        for task in self._waiting:
            if task is not None:
                task.cancel()
        return True
