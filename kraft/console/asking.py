"""Asking a cluster for a page: each panel has its own deadline, and says why it shows nothing while the rest shows."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from msgspec import Struct

from kraft.client import AuthenticationFailed, ErrorCode, KraftError, Refusal
from kraft.client.cluster import any_broker
from kraft.console.forms import Changed, Form, NoAnswerInTime, WrongInput
from kraft.console.sessions import whom
from kraft.model.printable import printable

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.console.clients import UserClient
    from kraft.console.config import ClusterConfig
    from kraft.console.state import State

T = TypeVar("T")
Row = TypeVar("Row")
Other = TypeVar("Other")

PANEL_S: Final = 3.0
"""Longest wait for a panel."""

CLIENT_MS: Final = 2_500
"""Longest wait of the client for an answer, which ends first: its error says which broker did not answer."""

ROWS_MAX: Final = 200
"""Rows of a page."""

CHANGE_S: Final = 10.0
"""Longest wait for a change."""

CHANGE_CLIENT_MS: Final = 9_000
"""Longest wait of the client for it, which ends first."""

_NO_ANSWER: Final = "NO_ANSWER"
_NOT_FOUND: Final = frozenset(
    {
        "BROKER_ID_NOT_REGISTERED",
        "GROUP_ID_NOT_FOUND",
        "INVALID_TOPIC_EXCEPTION",
        "OFFSET_OUT_OF_RANGE",
        "TRANSACTIONAL_ID_NOT_FOUND",
        "UNKNOWN_TOPIC_OR_PARTITION",
    }
)
_STATUSES: Final = {
    _NO_ANSWER: 504,
    "REQUEST_TIMED_OUT": 504,
    "CHANGED": 409,
    "SECURITY_DISABLED": 501,
    "UNSUPPORTED_VERSION": 501,
    **dict.fromkeys(
        (
            "TOPIC_ALREADY_EXISTS",
            "NON_EMPTY_GROUP",
            "GROUP_SUBSCRIBED_TO_TOPIC",
            "REASSIGNMENT_IN_PROGRESS",
            "INVALID_TXN_STATE",
        ),
        409,
    ),
    **dict.fromkeys(
        (
            "INVALID_REQUEST",
            "INVALID_CONFIG",
            "INVALID_PARTITIONS",
            "INVALID_REPLICATION_FACTOR",
            "INVALID_REPLICA_ASSIGNMENT",
            "POLICY_VIOLATION",
            "UNACCEPTABLE_CREDENTIAL",
            "RECORD_TOO_LARGE",
            "MESSAGE_TOO_LARGE",
        ),
        400,
    ),
}
_REMEDY_OF_ACCESS: Final = "ask an administrator for an ACL that allows it (kraft acls create --help)"


class Panel(Struct, Generic[T], frozen=True, kw_only=True):
    """Part of a page: its value, or why there is none."""

    value: T | None = None
    problem: str = ""
    code: str = ""
    """Kafka's name of the error."""

    @property
    def status(self) -> int:
        """Return the status of HTTP of a page that is about this."""
        if not self.problem:
            return 200
        if self.code in _NOT_FOUND:
            return 404
        if self.code.endswith("_AUTHORIZATION_FAILED"):
            return 403
        return _STATUSES.get(self.code, 502)


def without_value(panel: Panel[Any]) -> Panel[Any]:
    """Return a panel, of any other value, that says the same problem."""
    return Panel(problem=panel.problem, code=panel.code)


class LoginOver(Exception):
    """The cluster does not let the user of a session in any more: the password was changed, or the user deleted."""

    def __init__(self, client: UserClient, done: str = "") -> None:
        """`done` is what users did to themselves, as a sentence."""
        super().__init__("the cluster does not let this user in any more")
        self.client = client
        self.done = done


class Asked(Struct, frozen=True, kw_only=True):
    """A request for a page: the cluster, the client that acts as the user, and what the address says."""

    cluster: ClusterConfig
    user: str
    """Empty where the cluster is open."""

    claims: Mapping[str, Any] = {}
    """What the ID token of this user said, if there was one."""

    client: UserClient
    threads: ThreadPoolExecutor
    state: State
    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Form
    """What was sent; of a page that is only asked for, its query."""

    @property
    def whom(self) -> tuple[str, str]:
        """Return who asks, among the users of the cluster; what is kept for somebody is kept by this."""
        return whom(self.user, self.claims)

    @property
    def admin(self) -> Admin:
        return self.client.admin

    async def panel(self, ask: Callable[[], T]) -> Panel[T]:
        """Return what the function finds out, which may block, within the time of a panel. Raises LoginOver."""
        asked = asyncio.get_running_loop().run_in_executor(self.threads, ask)
        try:
            return Panel(value=await asyncio.wait_for(asked, PANEL_S))
        except TimeoutError:
            return Panel(problem=f"the cluster did not answer within {PANEL_S:g} s", code=_NO_ANSWER)
        except KraftError as error:
            self.check_login(error)
            return problem_of(error)

    async def change(self, make: Callable[[], T]) -> T:
        """Make a change, in a thread, within its time. Raises KraftError or LoginOver."""
        made = asyncio.get_running_loop().run_in_executor(self.threads, make)
        try:
            return await asyncio.wait_for(made, CHANGE_S)
        except TimeoutError:
            raise NoAnswerInTime(
                f"the cluster did not answer within {CHANGE_S:g} s: whether it was done is not known; look before you"
                " repeat it"
            ) from None
        except AuthenticationFailed as error:
            self.check_login(error)
            raise

    def let_in(self, outcomes: Mapping[int, T | KraftError]) -> Mapping[int, T | KraftError]:
        """Return what each broker said. Raises LoginOver if one does not let the user in any more.

        A connection that was open before a password was changed goes on, and new ones are refused.
        """
        for each in outcomes.values():
            if isinstance(each, KraftError):
                self.check_login(each)
        return outcomes

    def check_login(self, error: KraftError) -> None:
        """Raise LoginOver if an error says that the user has to log in again: to try again is in vain."""
        refused = isinstance(error, AuthenticationFailed) and error.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
        if refused and self.cluster.needs_login:
            raise LoginOver(self.client) from None


def as_far_as_known(ask: Callable[[], Sequence[T]]) -> tuple[list[T], str]:
    """Return the list that all brokers make together, and what is missing in it, as some of them do not answer."""
    known, missing = any_broker.as_far_as_known(ask)
    return known, "" if missing is None else printable(str(missing))


def problem_of(error: KraftError, forbidden: str = "you may not see this") -> Panel[T]:
    """Return a panel that says what is wrong, and what to do."""
    text = printable(str(error))
    if isinstance(error, WrongInput):
        return Panel(problem=text, code="INVALID_REQUEST")
    if isinstance(error, Changed):
        return Panel(problem=text, code="CHANGED")
    if not isinstance(error, Refusal):
        return Panel(problem=text, code=_NO_ANSWER)
    code = ErrorCode(error.error_code).name
    if code.endswith("_AUTHORIZATION_FAILED"):
        text = f"{forbidden}: {text}; {_REMEDY_OF_ACCESS}"
    elif isinstance(error, AuthenticationFailed) and error.lacks_settings:
        text = f"{text}; such keys stand in the console's file as cluster.NAME.security.protocol and so on"
    elif isinstance(error, AuthenticationFailed) and error.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED:
        text = f"{text}; log out, and log in again"
    return Panel(problem=text, code=code)


class Paged(Struct, Generic[Row], frozen=True, kw_only=True):
    """Rows of one page of a table, and where it stands among all of them."""

    rows: list[Row]
    found: int
    """Rows that the search finds."""

    total: int
    page: int
    pages: int
    search: str
    sort: str
    descending: bool


def with_rows(page: Paged[Any], rows: list[Row]) -> Paged[Row]:
    """Return the page with other rows in the same place."""
    return Paged(
        rows=rows,
        found=page.found,
        total=page.total,
        page=page.page,
        pages=page.pages,
        search=page.search,
        sort=page.sort,
        descending=page.descending,
    )


class Wanted(Struct, frozen=True, kw_only=True):
    """Which rows of a table an address asks for. Anything that is not one of the choices is the default."""

    search: str = ""
    sort: str = "name"
    descending: bool = False
    page: int = 1

    def matches(self, name: str) -> bool:
        return self.search.lower() in name.lower()

    def shown(self, rows: list[Row], total: int, key: Callable[[Row], Any] | None = None) -> Paged[Row]:
        """Return the rows of this page, sorted by the key, or as they are."""
        ordered = rows if key is None else sorted(rows, key=key)
        ordered = ordered[::-1] if self.descending else ordered
        pages = max(1, math.ceil(len(rows) / ROWS_MAX))
        page = min(self.page, pages)
        return Paged(
            rows=ordered[(page - 1) * ROWS_MAX : page * ROWS_MAX],
            found=len(rows),
            total=total,
            page=page,
            pages=pages,
            search=self.search,
            sort=self.sort,
            descending=self.descending,
        )


def wanted(query: Mapping[str, str], sorts: tuple[str, ...]) -> Wanted:
    page = query.get("page", "1")
    sort = query.get("sort", sorts[0])
    return Wanted(
        search=query.get("q", "").strip()[:250],
        sort=sort if sort in sorts else sorts[0],
        descending=query.get("order", "") == "desc",
        page=max(1, int(page)) if page.isascii() and page.isdigit() and len(page) < 7 else 1,
    )
