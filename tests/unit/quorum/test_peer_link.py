from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from structlog.testing import capture_logs

from kraft.local.free_ports import ReservedPorts
from kraft.quorum import peer_link
from kraft.quorum.command import REGULAR, CommandKind, EntryCommand, encode_body
from kraft.quorum.config import QuorumConfig
from kraft.quorum.counts import QuorumCounts
from kraft.quorum.frames import from_frame
from kraft.quorum.handshake import Greeting, Greetings, hello
from kraft.quorum.messages import AppendEntries, Message, VoteResponse, size_bytes
from kraft.quorum.pb import raft_pb2, raft_pb2_grpc
from kraft.quorum.peer_link import PeerLink
from kraft.quorum.peer_security import PeerSecurity
from tests.unit.quorum.loopback import addresses, until

REFUSAL = "cluster.id differs"


class QuietVoter(raft_pb2_grpc.RaftServicer):
    """Answers the hello as voter 2 and then only listens."""

    def __init__(self, config: QuorumConfig) -> None:
        self._config = config
        self.stream_count = 0
        self.sign_of_life_count = 0
        self.messages: list[Message] = []
        self.reads = asyncio.Event()
        """Until it is set, the voter takes nothing, and its stream fills."""
        self.reads.set()
        self.refuses_with: grpc.StatusCode | None = None

    async def Exchange(
        self,
        request_iterator: AsyncIterator[raft_pb2.RaftFrame],
        context: grpc.aio.ServicerContext[raft_pb2.RaftFrame, raft_pb2.RaftFrame],
    ) -> AsyncIterator[raft_pb2.RaftFrame]:
        await anext(request_iterator)
        if self.refuses_with is not None:
            await context.abort(self.refuses_with, REFUSAL)
        self.stream_count += 1
        yield hello(self._config, 1, Greeting())
        await self.reads.wait()
        async for frame in request_iterator:
            messages = from_frame(frame)
            self.messages += messages
            self.sign_of_life_count += not messages


class LinkToQuietVoter:
    def __init__(
        self,
        directory: Path,
        answering_node_id: int = 2,
        security: PeerSecurity | None = None,
        request_timeout_ms: int = 1_000,
    ) -> None:
        self.request_timeout_ms = request_timeout_ms
        self._reserved = ReservedPorts(3)
        self._voters = addresses(self._reserved.ports)
        self._directory = directory
        self.events: list[str] = []
        self.voter = QuietVoter(self._config(answering_node_id))
        self.link = PeerLink(
            self._config(1),
            2,
            on_up=lambda _: self.events.append("up"),
            on_down=lambda _: self.events.append("down"),
            on_room=lambda _: self.events.append("room"),
            security=security or PeerSecurity(),
            greetings=Greetings(),
            counts=QuorumCounts(),
        )

    def _config(self, node_id: int) -> QuorumConfig:
        return QuorumConfig(
            node_id=node_id,
            cluster_id="test",
            voters=self._voters,
            directory=self._directory,
            request_timeout_ms=self.request_timeout_ms,
        )

    @asynccontextmanager
    async def voter_running(self) -> AsyncIterator[None]:
        server = grpc.aio.server()
        raft_pb2_grpc.add_RaftServicer_to_server(self.voter, server)
        server.add_insecure_port(str(self._voters[2]))
        await server.start()
        try:
            yield
        finally:
            await server.stop(None)


def test_messages_arrive_in_order_and_idle_time_brings_signs_of_life(tmp_path: Path) -> None:
    async def run() -> None:
        scene = LinkToQuietVoter(tmp_path)
        async with scene.voter_running():
            scene.link.start()
            await until(lambda: scene.events == ["up"])
            sent: list[Message] = [VoteResponse(term=term) for term in range(1, 50)]
            for message in sent:
                scene.link.send([message])
            await until(lambda: scene.voter.messages == sent)
            await until(lambda: scene.voter.sign_of_life_count >= 1)
            await scene.link.stop()

    asyncio.run(run())


def large_append(index: int) -> AppendEntries:
    body = encode_body(
        EntryCommand(kind=CommandKind.PAYLOAD, decided_term=1, request_id=bytes(16), payload=bytes(100_000))
    )
    entry = (bytes([REGULAR]) + body, index, 1)
    return AppendEntries(term=1, previous_index=index - 1, previous_term=1, entries=(entry,), commit_index=1)


def test_a_link_that_is_not_read_from_has_no_room_until_it_is(tmp_path: Path) -> None:
    async def run() -> None:
        scene = LinkToQuietVoter(tmp_path)
        scene.voter.reads.clear()
        async with scene.voter_running():
            scene.link.start()
            await until(lambda: scene.events == ["up"])
            sent: list[Message] = []
            while scene.link.room_bytes > 0:
                sent.append(large_append(index=2 + len(sent)))
                scene.link.send([sent[-1]])
            assert sum(map(size_bytes, sent)) < peer_link.WINDOW_BYTES + size_bytes(sent[0])
            scene.voter.reads.set()
            await until(lambda: scene.events == ["up", "room"])
            assert scene.link.room_bytes >= peer_link.WINDOW_BYTES // 2
            await until(lambda: len(scene.voter.messages) == len(sent))
            assert scene.voter.messages == sent
            await until(lambda: scene.link.room_bytes == peer_link.WINDOW_BYTES)
            await scene.link.stop()

    asyncio.run(run())


def test_of_far_too_much_the_first_part_is_sent_and_no_gap_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_link, "QUEUED_BYTES_MAX", 1_000_000)

    async def run() -> None:
        scene = LinkToQuietVoter(tmp_path)
        async with scene.voter_running():
            scene.link.start()
            await until(lambda: scene.events == ["up"])
            sent: list[Message] = [large_append(index) for index in range(2, 50)]
            scene.link.send(sent)
            await until(lambda: scene.link.room_bytes == peer_link.WINDOW_BYTES)
            await until(lambda: len(scene.voter.messages) == 10)
            assert scene.voter.messages == sent[:10]
            await scene.link.stop()

    asyncio.run(run())


def test_a_voter_that_says_nothing_is_taken_for_dead_and_dialed_again(tmp_path: Path) -> None:
    async def run() -> None:
        scene = LinkToQuietVoter(tmp_path, request_timeout_ms=100)
        async with scene.voter_running():
            scene.link.start()
            await until(lambda: scene.events == ["up", "down", "up"])
            assert scene.voter.stream_count == 2
            await scene.link.stop()

    asyncio.run(run())


def test_a_voter_that_is_heard_from_keeps_its_link(tmp_path: Path) -> None:
    async def run() -> None:
        scene = LinkToQuietVoter(tmp_path, request_timeout_ms=40)
        async with scene.voter_running():
            scene.link.start()
            await until(lambda: scene.events == ["up"])

            def many_signs_have_come() -> bool:
                scene.link.heard()
                return scene.voter.sign_of_life_count > 3 * peer_link.SILENT_CHECKS_MAX

            await until(many_signs_have_come)
            assert scene.events == ["up"]
            await scene.link.stop()

    asyncio.run(run())


def test_a_link_waits_for_its_voter_and_comes_back_with_it(tmp_path: Path) -> None:
    async def run() -> None:
        scene = LinkToQuietVoter(tmp_path)
        scene.link.start()
        scene.link.send([VoteResponse(term=1)])
        async with scene.voter_running():
            await until(lambda: scene.events == ["up"])
        await until(lambda: scene.events == ["up", "down"])
        scene.link.hello_received()
        async with scene.voter_running():
            await until(lambda: scene.events == ["up", "down", "up"])
        await scene.link.stop()
        assert scene.voter.messages == [], "what was sent while the link was down is not sent later"

    asyncio.run(run())


def test_another_voter_behind_the_address_is_not_taken_for_the_right_one(tmp_path: Path) -> None:
    async def run() -> None:
        scene = LinkToQuietVoter(tmp_path, answering_node_id=3)
        async with scene.voter_running():
            scene.link.start()
            await until(lambda: scene.voter.stream_count == 2)
            assert scene.events == []
            await scene.link.stop()

    asyncio.run(run())


def test_a_refused_connection_is_logged_once_in_two_words(tmp_path: Path) -> None:
    attempts: list[str] = []

    def no_handshake_failure(details: str) -> None:
        attempts.append(details)

    async def run() -> None:
        scene = LinkToQuietVoter(tmp_path, security=PeerSecurity(handshake_failure=no_handshake_failure))
        scene.link.start()
        await until(lambda: len(attempts) == 2)
        await scene.link.stop()

    with capture_logs() as logs:
        asyncio.run(run())
    (logged,) = logs
    assert (logged["event"], logged["reason"]) == ("raft connection failed", "connection refused")


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.FAILED_PRECONDITION])
def test_a_voter_that_refuses_this_one_is_a_warning(tmp_path: Path, code: grpc.StatusCode) -> None:
    async def run() -> str:
        scene = LinkToQuietVoter(tmp_path)
        scene.voter.refuses_with = code
        async with scene.voter_running():
            scene.link.start()
            await until(lambda: bool(scene.link.refusal))
            await scene.link.stop()
        return scene.link.refusal

    with capture_logs() as logs:
        assert asyncio.run(run()) == REFUSAL
    (logged,) = logs
    assert (logged["event"], logged["log_level"], logged["reason"]) == ("raft connection refused", "warning", REFUSAL)


def test_a_handshake_that_fails_again_is_logged_once_with_the_voters_address(tmp_path: Path) -> None:
    failures: list[str] = []

    def handshake_failure(details: str) -> str | None:
        failures.append(details)
        return "it expects TLS" if "Connection refused" in details else None

    async def run() -> None:
        scene = LinkToQuietVoter(tmp_path, security=PeerSecurity(handshake_failure=handshake_failure))
        scene.link.start()
        await until(lambda: len(failures) == 3)
        await scene.link.stop()

    with capture_logs() as logs:
        asyncio.run(run())
    (logged,) = logs
    assert (logged["log_level"], logged["event"], logged["reason"]) == (
        "warning",
        "raft handshake failed",
        "it expects TLS",
    )
    assert logged["address"] == failures[0].rpartition("ipv4:")[2].partition(": ")[0]
