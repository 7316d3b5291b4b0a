from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from kraft.quorum.config import VoterAddress
from kraft.quorum.messages import VoteResponse, to_frames
from kraft.quorum.pb import raft_pb2
from kraft.quorum.pb.raft_pb2_grpc import RaftStub
from tests.unit.quorum.loopback import LoopbackCluster, Voter


def hello(
    cluster_id: str = "cluster-under-test", sender: int = 2, receiver: int = 1, voters: tuple[int, ...] = (1, 2, 3)
) -> raft_pb2.RaftFrame:
    return raft_pb2.RaftFrame(
        hello=raft_pb2.RaftHello(cluster_id=cluster_id, sender_id=sender, receiver_id=receiver, voter_ids=voters)
    )


def refusal_of(directory: Path, *frames: raft_pb2.RaftFrame) -> grpc.aio.AioRpcError:
    """How voter 1 of three ends a stream of these frames."""

    async def run() -> None:
        cluster = LoopbackCluster(directory, 3)
        voter = await cluster.start(1)
        try:
            async with grpc.aio.insecure_channel(str(address_of(voter))) as channel:
                call = RaftStub(channel).Exchange(iter(frames), timeout=5)
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
        (hello(sender=1), "not another voter"),
        (hello(sender=9), "not another voter"),
        (hello(voters=(1, 2)), "controller.quorum.voters differ"),
        (to_frames([VoteResponse(term=1)])[0], "no hello"),
        (raft_pb2.RaftFrame(), "no hello"),
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
                async for _ in RaftStub(channel).Exchange(iter([hello()]), timeout=5):
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
                earlier, later = RaftStub(channel).Exchange(timeout=5), RaftStub(channel).Exchange(timeout=5)
                for call in (earlier, later):
                    await call.write(hello())
                    assert isinstance(await call.read(), raft_pb2.RaftFrame)
                assert await earlier.code() is grpc.StatusCode.UNAVAILABLE
                assert not later.done()
                later.cancel()
        finally:
            await cluster.stop_all()

    asyncio.run(run())
