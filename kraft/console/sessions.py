"""Sessions: who has logged in, to which clusters, and until when. Credentials are only in the clients, in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

if TYPE_CHECKING:
    from kraft.console.clients import UserClient

SESSIONS_MAX: Final = 1_000
"""Sessions at the same time; each has a client with connections for each cluster that its user logged in to."""


SESSIONS_OF_A_USER_MAX: Final = 20
"""Of one user of a cluster; one more ends the login that nobody used for longest, so that nobody locks others out."""


class Login(Struct, frozen=True, kw_only=True):
    """A user of a cluster, and the client that acts as this user; no user where the cluster is open."""

    user: str
    client: UserClient
    claims: Mapping[str, Any] = {}
    """What the ID token of a login at an OpenID provider said, at most 32 KiB of JSON; nothing for a password."""

    @property
    def whom(self) -> tuple[str, str]:
        """Return who this is among the users of the cluster."""
        return whom(self.user, self.claims)


class Seen(Struct, frozen=True, kw_only=True):
    """Where a login came from, as its user is shown."""

    address: str = "?"
    agent: str = ""
    """What the browser calls itself, cut."""

    at_s: int = 0
    """In s since 1970."""


class Session(Struct, kw_only=True):
    session_id: str
    handle: str
    """Names the session for its user, and opens nothing."""

    csrf_token: str
    """What each form of this session carries; another page cannot know it."""

    begun_ms: int
    used_ms: int
    seen: Seen = Seen()
    """The last login."""

    logins: dict[str, Login] = field(default_factory=dict)
    """By the name of the cluster."""


def whom(user: str, claims: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name with the subject of a token, which providers give to one person only; names may be of several."""
    return user, str(claims.get("sub", ""))


UNSEEN: Final = Seen()


class TooManySessions(Exception):
    """Nobody can log in before others log out, or their sessions end."""


class Sessions:
    """All sessions. Ids come from `new_secret`, which nobody can guess."""

    def __init__(self, idle_ms: int, lifetime_ms: int, new_secret: Callable[[], str]) -> None:
        self._idle_ms = idle_ms
        self._lifetime_ms = lifetime_ms
        self._new_secret = new_secret
        self._by_id: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, session_id: str | None, now_ms: int) -> Session | None:
        """Return the session, which is in use from now on; None if it has ended, or never was."""
        session = self._by_id.get(session_id or "")
        if session is None or self._has_ended(session, now_ms):
            return None
        session.used_ms = now_ms
        return session

    def by_handle(self, handle: str, now_ms: int) -> Session | None:
        """Return the session of this handle, if it has not ended."""
        found = (each for each in self._by_id.values() if each.handle == handle)
        return next((each for each in found if not self._has_ended(each, now_ms)), None)

    def end_login(self, session: Session, cluster: str) -> Login | None:
        """Take a login out of the session, which ends with its last one; return it for its client to be closed."""
        login = session.logins.pop(cluster, None)
        if not session.logins:
            self._by_id.pop(session.session_id, None)
        return login

    def shared_logins(self, session: Session, other: Session) -> list[str]:
        """Return the clusters at which both are logged in as the same user."""
        return [
            cluster
            for cluster, login in session.logins.items()
            if cluster in other.logins and other.logins[cluster].whom == login.whom
        ]

    def of_same_users(self, session: Session, now_ms: int) -> list[Session]:
        """Return this session and others that have a login of the same user at the same cluster."""
        return [
            each
            for each in self._by_id.values()
            if self.shared_logins(session, each) and not self._has_ended(each, now_ms)
        ]

    def all_logins(self) -> list[Login]:
        return [login for each in self._by_id.values() for login in each.logins.values()]

    def is_open(self, session_id: str, now_ms: int) -> bool:
        """Return whether the session has not ended. It is not used by this."""
        session = self._by_id.get(session_id)
        return session is not None and not self._has_ended(session, now_ms)

    def log_in(
        self, before: Session | None, cluster: str, login: Login, now_ms: int, seen: Seen = UNSEEN
    ) -> tuple[Session, list[Login]]:
        """Return the session with this login, and the logins that it ends. Raises TooManySessions.

        It has a new id and token, so that whoever knew those of before, or planted them, is not logged in. How long it
        lasts is counted from the first login.
        """
        if before is None and len(self._by_id) >= SESSIONS_MAX:
            raise TooManySessions
        session = Session(
            session_id=self._new_secret(),
            handle=self._new_secret(),
            csrf_token=self._new_secret(),
            begun_ms=now_ms if before is None else before.begun_ms,
            used_ms=now_ms,
            seen=seen,
            logins={} if before is None else dict(before.logins),
        )
        if before is not None:
            self._by_id.pop(before.session_id, None)
        ended = [session.logins[cluster]] if cluster in session.logins else []
        ended += self._make_place(cluster, login)
        session.logins[cluster] = login
        self._by_id[session.session_id] = session
        return session, ended

    def _make_place(self, cluster: str, login: Login) -> list[Login]:
        """End logins of the user of this one, so that there is a place for it."""
        own = [
            each for each in self._by_id.values() if cluster in each.logins and each.logins[cluster].whom == login.whom
        ]
        own.sort(key=lambda each: -each.used_ms)
        ended = [self.end_login(each, cluster) for each in own[SESSIONS_OF_A_USER_MAX - 1 :]]
        return [each for each in ended if each is not None]

    def log_out_of(self, session: Session, cluster: str, client: UserClient) -> list[Login]:
        """End the login with this client, if the session still has it; return it, whose client is to be closed."""
        login = session.logins.get(cluster)
        return [session.logins.pop(cluster)] if login is not None and login.client is client else []

    def log_out(self, session: Session) -> list[Login]:
        """End the session; return its logins, whose clients are to be closed."""
        self._by_id.pop(session.session_id, None)
        return list(session.logins.values())

    def end_old(self, now_ms: int) -> list[Login]:
        """End those whose time is over; return their logins, whose clients are to be closed."""
        old = [each for each in self._by_id.values() if self._has_ended(each, now_ms)]
        return [login for each in old for login in self.log_out(each)]

    def end_all(self) -> list[Login]:
        return [login for each in list(self._by_id.values()) for login in self.log_out(each)]

    def _has_ended(self, session: Session, now_ms: int) -> bool:
        return now_ms - session.used_ms >= self._idle_ms or now_ms - session.begun_ms >= self._lifetime_ms
