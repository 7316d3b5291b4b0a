from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from msgspec.structs import replace

from kraft.local.free_ports import ReservedPorts
from kraft.quorum import service
from kraft.quorum.config import QuorumConfig, VoterAddress
from kraft.quorum.counts import QuorumCounts
from kraft.quorum.frames import to_frames
from kraft.quorum.handshake import Greetings
from kraft.quorum.messages import VoteResponse
from kraft.quorum.pb import raft_pb2
from kraft.quorum.pb.raft_pb2_grpc import RaftStub
from kraft.quorum.peer_security import PeerSecurity
from tests.unit.quorum.loopback import LoopbackCluster, Voter, addresses, until


def hello(
    cluster_id: str = "cluster-under-test", sender: int = 2, receiver: int = 1, voters: tuple[int, ...] = (1, 2, 3)
) -> raft_pb2.RaftFrame:
    return raft_pb2.RaftFrame(
        hello=raft_pb2.RaftHello(cluster_id=cluster_id, sender_id=sender, receiver_id=receiver, voter_ids=voters)
    )


def refusal_of(directory: Path, *frames: raft_pb2.RaftFrame) -> grpc.aio.AioRpcError:
    """Return how voter 1 of three ends a stream of these frames."""

    async def run() -> None:
        cluster = LoopbackCluster(directory, 3)
        voter = await cluster.start(1)
        try:
            async with grpc.aio.insecure_channel(str(address_of(voter))) as channel:
                call = RaftStub(channel).Exchange(iter(frames), timeout=30)
                async for _ in call:
                    pass
        finally:
            await cluster.stop_all()

    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        asyncio.run(run())
    return refusal.value


def address_of(voter: Voter) -> VoterAddress:
    return voter.config.voters[voter.config.node_id]


@pytest.mark.parametrize(
    ("first", "named"),
    [
        (hello(cluster_id="another"), "cluster.id differs"),
        (hello(receiver=3), "this is node 1"),
        (hello(sender=1), "node.id 1 is this node's own: give each node its own node.id"),
        (hello(sender=9), "node 9 is not in controller.quorum.voters"),
        (hello(voters=(1, 2)), "controller.quorum.voters differ"),
        (to_frames([VoteResponse(term=1)])[0], "not a hello"),
        (raft_pb2.RaftFrame(), "not a hello"),
    ],
)
def test_a_stranger_is_refused_in_one_line(tmp_path: Path, first: raft_pb2.RaftFrame, named: str) -> None:
    refusal = refusal_of(tmp_path, first)
    assert refusal.code() is grpc.StatusCode.FAILED_PRECONDITION
    details = refusal.details()
    assert details is not None
    assert named in details
    assert "\n" not in details


def test_a_stream_that_ends_before_its_hello_is_refused(tmp_path: Path) -> None:
    assert refusal_of(tmp_path).code() is grpc.StatusCode.FAILED_PRECONDITION


def test_a_frame_that_no_sound_voter_sends_ends_the_stream(tmp_path: Path) -> None:
    refusal = refusal_of(tmp_path, hello(), raft_pb2.RaftFrame())
    assert refusal.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_voter_that_is_not_started_asks_to_try_again(tmp_path: Path) -> None:
    async def run() -> grpc.StatusCode:
        cluster = LoopbackCluster(tmp_path, 3)
        voter = await cluster.start(1)
        await voter.quorum.stop()
        try:
            async with grpc.aio.insecure_channel(str(address_of(voter))) as channel:
                async for _ in RaftStub(channel).Exchange(iter([hello()]), timeout=30):
                    pass
        except grpc.aio.AioRpcError as error:
            return error.code()
        finally:
            await cluster.stop_all()
        return grpc.StatusCode.OK

    assert asyncio.run(run()) is grpc.StatusCode.UNAVAILABLE


def test_a_later_stream_of_a_voter_ends_its_earlier_one(tmp_path: Path) -> None:
    async def run() -> None:
        cluster = LoopbackCluster(tmp_path, 3)
        voter = await cluster.start(1)
        try:
            async with grpc.aio.insecure_channel(str(address_of(voter))) as channel:
                earlier, later = RaftStub(channel).Exchange(timeout=30), RaftStub(channel).Exchange(timeout=5)
                for call in (earlier, later):
                    await call.write(hello())
                    assert isinstance(await call.read(), raft_pb2.RaftFrame)
                assert await earlier.code() is grpc.StatusCode.UNAVAILABLE
                assert not later.done()
                later.cancel()
        finally:
            await cluster.stop_all()

    asyncio.run(run())


class Greeting:
    """A voter's process that dials voter 1 of three, over one channel."""

    def __init__(self, channel: grpc.aio.Channel, sender: int, process_id: bytes) -> None:
        self._call = RaftStub(channel).Exchange(timeout=30)
        self._hello = hello(sender=sender)
        self._hello.hello.process_id = process_id

    async def is_answered(self) -> bool:
        await self._call.write(self._hello)
        try:
            return isinstance(await self._call.read(), raft_pb2.RaftFrame)
        except grpc.aio.AioRpcError:
            return False

    async def details(self) -> str:
        return await self._call.details() or ""

    def end(self) -> None:
        self._call.cancel()


def test_a_second_process_with_a_voters_id_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    async def run() -> None:
        cluster = LoopbackCluster(tmp_path, 3)
        voter = await cluster.start(1)
        try:
            async with grpc.aio.insecure_channel(str(address_of(voter))) as channel:
                first, again = Greeting(channel, 2, b"first"), Greeting(channel, 2, b"first")
                assert await first.is_answered()
                second = Greeting(channel, 2, b"second")
                assert not await second.is_answered()
                assert await second.details() == (
                    "node.id 2 is in use by another running process: give each node its own node.id"
                )
                assert await again.is_answered(), "the same process may dial once more"
                again.end()
                await until(lambda: 2 not in voter.quorum.service._streams)
                successor = Greeting(channel, 2, b"second")
                assert await successor.is_answered()
                successor.end()
        finally:
            await cluster.stop_all()

    asyncio.run(run())


def test_a_process_that_fell_silent_makes_way_for_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "ALIVE_S", 0.0)

    async def run() -> None:
        cluster = LoopbackCluster(tmp_path, 3)
        voter = await cluster.start(1)
        try:
            async with grpc.aio.insecure_channel(str(address_of(voter))) as channel:
                silent, successor = Greeting(channel, 2, b"first"), Greeting(channel, 2, b"second")
                assert await silent.is_answered()
                assert await successor.is_answered()
                successor.end()
        finally:
            await cluster.stop_all()

    asyncio.run(run())


def refusals_behind(security: PeerSecurity, directory: Path, *frames: bytes) -> tuple[str, list[tuple[str, str]]]:
    """Return how voter 1 of three ends a stream of these bytes, and what it logs."""
    answer: list[tuple[str, str]] = []

    async def run(voters: dict[int, VoterAddress]) -> str:
        config = QuorumConfig(node_id=1, cluster_id="cluster-under-test", voters=voters, directory=directory)
        refusing = replace(security, refused=lambda peer, reason: answer.append((peer, reason)))
        raft = service.RaftService(config, refusing, Greetings(), QuorumCounts())
        raft.open(lambda *_: None, lambda _: None)
        server = grpc.aio.server()
        raft.add_to(server)
        server.add_insecure_port(str(voters[1]))
        await server.start()
        try:
            # The types of gRPC know of messages only.
            dialed: Any = grpc.aio.insecure_channel(str(voters[1]))
            async with dialed as channel:
                call = channel.stream_stream("/kraft.v1.Raft/Exchange")(iter(frames), timeout=30)
                async for _ in call:
                    pass
        except grpc.aio.AioRpcError as error:
            return error.details() or ""
        finally:
            await server.stop(None)
        return ""

    with ReservedPorts(3) as ports:
        return asyncio.run(run(addresses(ports))), answer


def test_a_peer_that_claims_another_voters_id_is_refused(tmp_path: Path) -> None:
    security = PeerSecurity(objection=lambda _, voter: f"somebody else speaks as voter {voter}")
    details, ((peer, reason),) = refusals_behind(security, tmp_path, hello().SerializeToString())
    assert details == reason == "somebody else speaks as voter 2"
    assert peer.startswith("ipv4:127.0.0.1:")


@pytest.mark.parametrize("frames", [(b"\xff" * 20,), (hello().SerializeToString(), b"\xff" * 20)])
def test_bytes_that_are_no_frame_are_refused_in_one_line(
    tmp_path: Path, frames: tuple[bytes, ...], caplog: pytest.LogCaptureFixture
) -> None:
    details, ((_, reason),) = refusals_behind(PeerSecurity(), tmp_path, *frames)
    assert details == reason
    assert reason.startswith("the bytes are not a frame: ")
    # gRPC may still have something to say to the loop of a test before.
    assert [one for one in caplog.records if "PollerCompletionQueue" not in one.getMessage()] == []
