"""The answering end of an exchange on a connection of its own, without a socket and without an introduction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from kraft.model.replica_fetch import ReplicaFetchRequest, ReplicaFetchResponse
from kraft.rpc.cluster_calls import REPLICA_FETCH
from kraft.rpc.frame_connection import SIZE_BYTES
from kraft.rpc.frame_exchange import HELLO_VERSION, hello
from kraft.rpc.gatekeeper import Gatekeeper
from kraft.rpc.introductions import NONCE_BYTES
from kraft.rpc.refusal_log import RefusalLog
from kraft.rpc.replica_fetch_frames import request_pieces
from kraft.rpc.served_frames import ServedFrames
from kraft.rpc.services import EXCHANGE_REQUESTS_WAITING_MAX
from tests.unit.rpc.paused_transport import PausedTransport


class Admitting:
    """A gatekeeper that admits everybody."""

    def admit_connection(self, method: str, introduction: str, nonce: bytes, peer: str) -> bytes:
        return b"proof"


def frame(number: int) -> bytes:
    request = ReplicaFetchRequest(
        number=number, replica_id=2, broker_epoch=3, max_wait_ms=0, min_bytes=0, max_bytes=0, partitions=[]
    )
    content = b"".join(request_pieces(request))
    return len(content).to_bytes(SIZE_BYTES, "big") + content


async def test_a_peer_that_sends_too_many_requests_is_read_again_only_when_fewer_wait() -> None:
    gates: list[asyncio.Future[None]] = []

    async def answer(request: ReplicaFetchRequest) -> Callable[[], ReplicaFetchResponse]:
        gates.append(asyncio.get_running_loop().create_future())
        await gates[-1]
        return lambda: ReplicaFetchResponse(number=request.number, partitions=[])

    served = ServedFrames(REPLICA_FETCH.served_by(answer), cast(Gatekeeper, Admitting()), RefusalLog(lambda: 0))
    transport = PausedTransport()
    served.admit(HELLO_VERSION, hello(bytes(NONCE_BYTES), "introduction"), "peer")(transport)
    beyond = 10
    # All of them are in one read, so the connection gets more than it wants.
    data = b"".join(map(frame, range(EXCHANGE_REQUESTS_WAITING_MAX + beyond)))
    transport.connection.get_buffer(-1)[: len(data)] = data
    transport.connection.buffer_updated(len(data))
    await asyncio.sleep(0)
    assert len(gates) == EXCHANGE_REQUESTS_WAITING_MAX + beyond
    paused = []
    for gate in gates[: beyond + 1]:
        paused.append(transport.is_paused)
        gate.set_result(None)
        for _ in range(3):
            await asyncio.sleep(0)
    assert paused == [True] * (beyond + 1)
    assert not transport.is_paused
    served.close()
    await asyncio.sleep(0)
