"""Addresses of the console's pages: the patterns of the table of routes, filled with names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from kraft.console.rendering import segment
from kraft.console.route_kinds import Page

_IN_PATH: Final = re.compile(r"{(\w+)(?::\w+)?}")

_USUAL: Final[Mapping[str, str]] = {
    "broker": "1",
    # Of topics and of brokers.
    "config": "compression.type",
    "partition": "0",
    "offset": "0",
    "transactional_id": "transfer",
    "file": "console.css",
}
"""Names that are there in each cluster of the tests, or that no test minds to miss."""


def filled(pattern: str, **names: str) -> str:
    """Return the address. Raises KeyError for a name that is not given, and not usual."""
    given = {**_USUAL, **names}
    return _IN_PATH.sub(lambda found: segment(given[found[1]]), pattern)


_QUERIES: Final[Mapping[str, Mapping[str, str]]] = {
    "/clusters/{cluster}/moves/plan": {"way": "balance"},
    "/clusters/{cluster}/moves/elections/unclean": {"which": "orders-0"},
    "/clusters/{cluster}/topics-new": {"topic": "payments"},
    "/clusters/{cluster}/topics/{topic}/partitions": {"count": "12"},
    "/clusters/{cluster}/topics/{topic}/delete-records": {"partition": ""},
    "/clusters/{cluster}/users/password": {"user": "root"},
    "/clusters/{cluster}/users/delete": {"user": "viewer"},
    "/clusters/{cluster}/acls/of": {"principal": "User:viewer"},
    "/clusters/{cluster}/acls/delete": {"principal": "User:viewer"},
    "/clusters/{cluster}/quotas/of": {"user": "viewer"},
    "/clusters/{cluster}/quotas/set": {"user": "viewer"},
    "/clusters/{cluster}/quotas/remove": {"user": "viewer"},
    "/clusters/{cluster}/group-reset/{group:path}": {"target": "latest"},
    "/clusters/{cluster}/transaction-hanging": {"minutes": "15"},
    "/clusters/{cluster}/transaction-producers": {"topic": "orders", "partition": "0"},
    "/clusters/{cluster}/transaction-abort": {"topic": "orders", "partition": "0", "start_offset": "0"},
}
"""What pages that are about something ask for in their query."""


def address_of(page: Page, **names: str) -> str:
    """Return an address at which the page has something to show."""
    query = urlencode(_QUERIES.get(page.path, {}))
    return filled(page.path, **{"partition": "0", "offset": "0", **names}) + (f"?{query}" if query else "")
