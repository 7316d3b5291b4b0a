"""The answering end of an exchange on a connection of its own, without a socket and without an introduction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from kraft.log.format.record_batch import Buffer
from kraft.model.replica_fetch import ReplicaFetchRequest, ReplicaFetchResponse
from kraft.rpc.cluster_calls import REPLICA_FETCH
from kraft.rpc.frame_exchange import HELLO_VERSION, admitting, hello
from kraft.rpc.introductions import NONCE_BYTES
from kraft.rpc.refusal_log import RefusalLog
from kraft.rpc.served_frames import REQUEST_BYTES_MAX, ServedFrames
from kraft.rpc.services import EXCHANGE_REQUESTS_WAITING_MAX
from tests.unit.rpc.gated_streams import NO_PARTITIONS, Gates, settle
from tests.unit.rpc.paused_transport import PausedTransport

PROOF = bytes(32)


class Admitting:
    """A gatekeeper that admits everybody."""

    def admit_connection(self, *_: object) -> bytes:
        return PROOF


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self._is_reading = True
        self.is_closed = False
        self.protocol: Any = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def write(self, data: Buffer) -> None:
        assert not self.is_closed
        self.written += data

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True

    def is_reading(self) -> bool:
        return self._is_reading

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.written.clear()
        self.is_closed = True

    def feed(self, data: bytes) -> None:
        """Receive the data in as many reads as it takes, even where reading is paused."""
        while data:
            room = self.protocol.get_buffer(-1)
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self.protocol.buffer_updated(count)
            data = data[count:]

    def numbers(self) -> list[int]:
        """Return the numbers of the responses that were written after the admission."""
        frames = []
        data = bytes(self.written)
        while data:
            size = int.from_bytes(data[:4], "big")
            frames.append(data[4 : 4 + size])
            data = data[4 + size :]
        assert frames[:1] == [admitting(PROOF)]
        return [REPLICA_FETCH.response.to_value(frame).number for frame in frames[1:]]


class Serving:
    """The exchange with one node, whose requests are answered when the test opens their gates."""

    def __init__(self) -> None:
        self.gates = Gates()
        refusals = RefusalLog(lambda: 0)
        self.frames = ServedFrames(REPLICA_FETCH.served_by(self._answer), cast(Any, Admitting()), refusals)

    async def _answer(self, request: ReplicaFetchRequest) -> Callable[[], ReplicaFetchResponse]:
        number = await self.gates.answer(request.number)
        return lambda: ReplicaFetchResponse(number=number, partitions=[])

    def connected(self) -> Transport:
        transport = Transport()
        self.frames.admit(HELLO_VERSION, hello(bytes(NONCE_BYTES), "introduction"), "peer")(transport)
        return transport


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def requests(*numbers: int) -> bytes:
    packed = REPLICA_FETCH.request.to_message
    return b"".join(framed(packed(replace(NO_PARTITIONS, number=number))) for number in numbers)


async def test_a_peer_that_sends_too_many_requests_is_read_again_only_when_fewer_wait() -> None:
    gates: list[asyncio.Future[None]] = []

    async def answer(request: ReplicaFetchRequest) -> Callable[[], ReplicaFetchResponse]:
        gates.append(asyncio.get_running_loop().create_future())
        await gates[-1]
        return lambda: ReplicaFetchResponse(number=request.number, partitions=[])

    served = ServedFrames(REPLICA_FETCH.served_by(answer), cast(Any, Admitting()), RefusalLog(lambda: 0))
    transport = PausedTransport()
    served.admit(HELLO_VERSION, hello(bytes(NONCE_BYTES), "introduction"), "peer")(transport)
    beyond = 10
    # All of them are in one read, so the connection gets more than it wants.
    data = requests(*range(EXCHANGE_REQUESTS_WAITING_MAX + beyond))
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


async def test_a_node_that_stops_closes_its_connections_and_admits_no_more() -> None:
    serving = Serving()
    nodes = [serving.connected() for _ in range(2)]
    nodes[0].feed(requests(1))
    await settle()
    serving.frames.close()
    assert [node.is_closed for node in nodes] == [True, True]
    await settle()
    assert serving.gates.cancelled == [1]
    with pytest.raises(ValueError, match="this node stops"):
        serving.connected()


@pytest.mark.parametrize(
    "bad", [framed(b"bad"), (REQUEST_BYTES_MAX + 1).to_bytes(4, "big")], ids=["no request", "too large"]
)
async def test_responses_that_are_ready_are_sent_before_an_invalid_request_ends_the_connection(bad: bytes) -> None:
    serving = Serving()
    node = serving.connected()
    serving.gates.open(1, 2, 4)
    with capture_logs() as lines:
        node.feed(requests(1, 2, 3) + bad + requests(4))
        await settle()
    assert node.numbers() == [1, 2]
    assert node.is_closed
    assert serving.gates.begun == [1, 2, 3]
    assert serving.gates.cancelled == [3]
    (line,) = lines
    assert "not a valid request" in line["reason"]


async def test_responses_wait_for_room_before_an_invalid_request_ends_the_connection() -> None:
    serving = Serving()
    node = serving.connected()
    serving.gates.open(1, 2)
    node.protocol.pause_writing()
    node.feed(requests(1, 2) + framed(b"bad"))
    await settle()
    assert not node.is_closed
    assert not node.is_reading(), "nothing more is taken"
    node.protocol.resume_writing()
    assert node.numbers() == [1, 2]
    assert node.is_closed
