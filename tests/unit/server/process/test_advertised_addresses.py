from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from kraft.model.ids import BrokerId
from kraft.rpc.identity import Identity, identity_service
from kraft.rpc.peers import Unreachable, dial_openly
from kraft.server.config.loading import load
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import CONTROLLER, GRPC
from kraft.server.identity.kafka_tls import KafkaTls
from kraft.server.process import advertised_addresses
from kraft.server.process.advertised_addresses import NotFoundThere, check_advertised, check_advertised_to_kafka
from kraft.server.process.kafka_dialling import METADATA_VERSION
from kraft.wire.frame import encode_response
from kraft.wire.schema.metadata import MetadataResponse
from tests.support.rpc_servers import served

pytestmark = pytest.mark.real_time

OWN = Identity(
    cluster_id="kJ2Yk0mVT0ma0wV2Yk0mVQ", node_id=BrokerId(1), process_id=bytes(16), features=[], listener=GRPC
)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advertised_addresses, "ATTEMPT_TIMEOUT_S", 0.3)
    monkeypatch.setattr(advertised_addresses, "ATTEMPT_PAUSE_S", 0.05)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Somebody takes connections there and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield silent.getsockname()[1]


def config(directory: Path, *lines: str) -> NodeConfig:
    file = directory / "server.properties"
    own = ("process.roles=broker", "node.id=1", "controller.quorum.voters=2@localhost:9093", "log.dirs=data")
    file.write_text("\n".join([*own, "listeners=GRPC://127.0.0.1:9094", *lines]))
    return load(file)


def advertising(directory: Path, address: str, *lines: str) -> NodeConfig:
    return config(directory, f"advertised.listeners=GRPC://{address}", *lines)


@asynccontextmanager
async def answering(identity: Identity) -> AsyncIterator[str]:
    async with served(identity_service(identity)) as (_, address):
        yield address


async def check(node: NodeConfig) -> None:
    await check_advertised(node, OWN, dial_openly)


async def test_a_node_that_reaches_itself_starts(tmp_path: Path) -> None:
    async with answering(OWN) as address:
        await check(advertising(tmp_path, address))


async def test_a_name_of_this_machine_is_as_good_as_its_address(tmp_path: Path) -> None:
    async with answering(OWN) as address:
        await check(advertising(tmp_path, f"localhost:{address.partition(':')[2]}"))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (replace(OWN, node_id=BrokerId(2)), "where node 2 answers instead of this node's GRPC"),
        (replace(OWN, cluster_id="other"), "where node 1 of cluster 'other' answers instead of this node's GRPC"),
        (
            replace(OWN, process_id=b"x" * 16),
            "where another process with node.id 1 answers instead of this node's GRPC",
        ),
        (replace(OWN, listener=CONTROLLER), "where its listener CONTROLLER answers instead of this node's GRPC"),
    ],
)
def test_an_address_of_another_node_is_refused_with_who_answers(tmp_path: Path, other: Identity, expected: str) -> None:
    async def scenario() -> str:
        async with answering(other) as address:
            with pytest.raises(NotFoundThere) as refused:
                await check(advertising(tmp_path, address))
            assert f"advertised.listeners names GRPC://{address}, where" in str(refused.value)
        return str(refused.value)

    assert expected in asyncio.run(scenario())


def test_an_address_at_which_nobody_answers_is_refused_with_the_remedy_in_one_line(
    tmp_path: Path, silent_port: int
) -> None:
    with pytest.raises(NotFoundThere) as refused:
        asyncio.run(check(advertising(tmp_path, f"127.0.0.1:{silent_port}")))
    message = str(refused.value)
    assert message.startswith(
        f"{tmp_path}/server.properties: advertised.listeners names GRPC://127.0.0.1:{silent_port}, "
    )
    assert "cannot reach (no answer within the time allowed): set advertised.listeners=GRPC://host:port to" in message
    assert "or advertised.listeners.check.enable=false if only this machine" in message
    assert "\n" not in message


async def test_a_service_that_is_no_node_is_refused(tmp_path: Path) -> None:
    async with served() as (_, address):
        with pytest.raises(NotFoundThere, match=r"cannot reach \(UNIMPLEMENTED"):
            await check(advertising(tmp_path, address))


def test_an_address_that_works_a_moment_later_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy, for example, must first notice that the node listens."""
    outcomes: list[Identity | Unreachable] = [Unreachable("proxy:9094", "connection refused"), OWN]

    async def who_answers(*_: object) -> Identity:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Unreachable):
            raise outcome
        return outcome

    monkeypatch.setattr(advertised_addresses, "who_answers", who_answers)
    asyncio.run(check(advertising(tmp_path, "proxy:9094")))
    assert outcomes == []


def test_without_advertised_listeners_the_line_names_listeners(tmp_path: Path, silent_port: int) -> None:
    node = config(tmp_path, f"listeners=GRPC://127.0.0.1:{silent_port}")
    with pytest.raises(NotFoundThere, match=f"properties: listeners names GRPC://127.0.0.1:{silent_port}, which"):
        asyncio.run(check(node))


def test_nothing_is_checked_when_the_check_is_disabled(tmp_path: Path, silent_port: int) -> None:
    asyncio.run(check(advertising(tmp_path, f"127.0.0.1:{silent_port}", "advertised.listeners.check.enable=false")))


# --- Kafka's protocol --------------------------------------------------------------------------------------------


@asynccontextmanager
async def kafka_answering(*answers: bytes) -> AsyncIterator[str]:
    """Somebody who gives each connection these bytes, whatever it asks for."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.writelines(answers)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"


def metadata_of(cluster_id: str) -> bytes:
    response = MetadataResponse(brokers=(), cluster_id=cluster_id, topics=())
    return b"".join(bytes(part) for part in encode_response(response, METADATA_VERSION, 1))


async def check_plaintext(node: NodeConfig) -> None:
    await check_advertised_to_kafka(node, "PLAINTEXT", OWN.cluster_id, KafkaTls(node))


def with_kafka(directory: Path, address: str) -> NodeConfig:
    return config(
        directory,
        "listeners=GRPC://127.0.0.1:9094,PLAINTEXT://127.0.0.1:9092",
        f"advertised.listeners=PLAINTEXT://{address}",
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (metadata_of(OWN.cluster_id), None),
        (metadata_of("other"), "where cluster 'other' answers instead of this one"),
        (b"HTTP/1.1 400 Bad Request", "cannot reach (the answer is not in Kafka's protocol)"),
        (b"", "cannot reach (the answer is not in Kafka's protocol)"),
    ],
)
def test_kafkas_clients_are_sent_to_this_cluster_only(tmp_path: Path, answer: bytes, expected: str | None) -> None:
    async def scenario() -> str | None:
        async with kafka_answering(answer) as address:
            try:
                await check_plaintext(with_kafka(tmp_path, address))
            except NotFoundThere as refused:
                return str(refused)
        return None

    message = asyncio.run(scenario())
    if expected is None:
        assert message is None
    else:
        assert expected in (message or "")
        assert "set advertised.listeners=PLAINTEXT://host:port to where clients" in (message or "")


def test_an_address_that_takes_kafkas_clients_and_never_answers_is_refused(tmp_path: Path, silent_port: int) -> None:
    node = with_kafka(tmp_path, f"127.0.0.1:{silent_port}")
    with pytest.raises(NotFoundThere, match="no answer within the time allowed"):
        asyncio.run(check_plaintext(node))


def test_a_node_without_kafkas_protocol_checks_none(tmp_path: Path) -> None:
    asyncio.run(check_plaintext(advertising(tmp_path, "127.0.0.1:1")))
