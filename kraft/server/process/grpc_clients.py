"""Connections of clients to the GRPC listener: who they are, and what the system counts of their bytes."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import structlog

from kraft.model.clients import TEXT_CHARACTERS_MAX, ClientConnection
from kraft.rpc.received_messages import KnownConnection, ReceivedMessages
from kraft.rpc.refusal_log import readable_peer
from kraft.server.loop.turns import Turns
from kraft.server.process.connection_watch import ConnectionSample, connections_of

log = structlog.get_logger()

DESCRIBED_AT_ONCE_MAX: Final = 200


class GrpcClients:
    """Clients of one gRPC listener."""

    def __init__(self, name: str, port: int, received: ReceivedMessages) -> None:
        self._name = name
        self._port = port
        self._received = received

    async def connections(self) -> list[ClientConnection]:
        """Return the connections that have made a call, in no order, except those of nodes.

        None on systems other than Linux, where nobody can say which connections of gRPC are open.
        """
        if not sys.platform.startswith("linux"):
            return []
        try:
            seen = await asyncio.to_thread(connections_of, [self._port])
        except (OSError, RuntimeError) as error:
            # Without a free file they cannot be listed, nor without a thread.
            log.warning("clients not listed", listener=self._name, reason=str(error))
            return []
        sockets = {each.peer: each for each in seen}
        now_s, turns, found = self._received.now_s(), Turns(DESCRIBED_AT_ONCE_MAX), list[ClientConnection]()
        for each in self._received.of_clients():
            if (counted := sockets.get(each.peer)) is not None:
                found.append(self._described(each, counted, now_s))
            await turns.done()
        return found

    def _described(self, known: KnownConnection, counted: ConnectionSample, now_s: float) -> ClientConnection:
        return ClientConnection(
            listener=self._name,
            address=readable_peer(known.peer),
            principal=str(known.caller.principal)[:TEXT_CHARACTERS_MAX],
            client_id=known.caller.client_id[:TEXT_CHARACTERS_MAX],
            software_name=known.software.name,
            software_version=known.software.version,
            age_ms=round((now_s - known.began_s) * 1_000),
            requests=known.messages,
            received_bytes=counted.received_bytes,
            sent_bytes=counted.acked_bytes,
        )
