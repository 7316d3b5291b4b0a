"""The connections for bulk reads of one client: kept between ranges, and brokers that failed are left for a while."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Final

from kraft.client.bulk.fetch_socket import FetchSocket
from kraft.client.model.security import OPEN, ClientSecurity
from kraft.runtime.clock import Clock

CONNECT_TIMEOUT_S: Final = 2.0
RETRY_FIRST_MS: Final = 1_000
RETRY_MAX_MS: Final = 60_000


class FetchSockets:
    """Idle connections by address. May be used by several threads; a connection that was taken is of one thread."""

    def __init__(self, client_id: str, clock: Clock, security: ClientSecurity = OPEN) -> None:
        self._client_id = client_id
        self._security = security
        self._clock = clock
        self._guard = threading.Lock()
        self._idle: defaultdict[str, list[FetchSocket]] = defaultdict(list)
        self._failures: dict[str, int] = {}
        self._retry_at_ms: dict[str, int] = {}
        self._is_closed = False

    def may_try(self, address: str) -> bool:
        """Return False for a while after a failure, longer after each one."""
        return not self._is_closed and self._clock.monotonic_ms() >= self._retry_at_ms.get(address, 0)

    def take(self, address: str) -> FetchSocket:
        """Return an idle connection, or a new one. Raises OSError, and ProtocolError."""
        with self._guard:
            while idle := self._idle[address]:
                connection = idle.pop()
                if not connection.is_expired:
                    return connection
                connection.close()
        return FetchSocket(address, self._client_id, CONNECT_TIMEOUT_S, self._security)

    def give_back(self, connection: FetchSocket) -> None:
        """Keep a connection for the next range, unless a response may still arrive on it."""
        with self._guard:
            if not self._is_closed and not connection.is_awaited:
                self._idle[connection.address].append(connection)
                return
        connection.close()

    def worked(self, address: str) -> None:
        self._failures.pop(address, None)

    def failed(self, address: str) -> None:
        """Close the idle connections to the broker, and leave it for a while."""
        failures = self._failures[address] = self._failures.get(address, 0) + 1
        delay_ms = min(RETRY_MAX_MS, RETRY_FIRST_MS << min(failures - 1, 10))
        self._retry_at_ms[address] = self._clock.monotonic_ms() + delay_ms
        with self._guard:
            stale = self._idle.pop(address, [])
        for connection in stale:
            connection.close()

    def close(self) -> None:
        with self._guard:
            self._is_closed = True
            idle = [connection for each in self._idle.values() for connection in each]
            self._idle.clear()
        for connection in idle:
            connection.close()
