from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from kraft.local import cluster_files
from kraft.local.cluster_files import HOST, NodePlan
from kraft.rpc.refusal_log import RefusalLog
from kraft.server.config.loading import load
from kraft.server.config.values import CONTROLLER, GRPC
from kraft.server.identity import machine_secret
from kraft.server.identity.controller_tls import TlsFiles, read_tls_files
from kraft.server.identity.credentials import NodeCredentials, certificate_name_covers
from tests.support.certificates import Authority, Stores
from tests.unit.server.identity.refused_files import SECRET, refusal

CLUSTER = "kJ2Yk0mVT0ma0wV2Yk0mVQ"
METHOD = "/kraft.v1.Raft/Exchange"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stores(authority: Authority) -> Stores:
    return authority.certify("node")


def credentials(directory: Path, **settings: str) -> NodeCredentials:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    plans = [NodePlan(node_id=node_id, grpc_port=9000 + node_id, controller_port=9100 + node_id) for node_id in (1, 2)]
    cluster_files.write(directory, plans, CLUSTER)
    cluster_files.secret_file(directory).write_text(SECRET)
    file = cluster_files.config_file(directory, 1)
    file.write_text(file.read_text() + "".join(f"{key}={value}\n" for key, value in named.items()))
    return NodeCredentials(load(file), CLUSTER, RefusalLog(lambda: 0))


def test_a_key_and_its_certificate_are_separated(stores: Stores) -> None:
    files = read_tls_files(stores.keystore, stores.truststore, host=HOST)
    assert files.private_key.startswith(b"-----BEGIN PRIVATE KEY-----")
    assert files.certificates.count(b"BEGIN CERTIFICATE") == 1


def test_stores_that_openssl_would_not_take_are_refused(stores: Stores, authority: Authority, tmp_path: Path) -> None:
    def written(content: bytes, mode: int = 0o600) -> Path:
        path = tmp_path / "store.pem"
        path.write_bytes(content)
        path.chmod(mode)
        return path

    own, other = stores.keystore.read_bytes(), authority.certify("other").keystore.read_bytes()
    key, certificate = own.partition(b"-----BEGIN CERTIFICATE")[0], own[own.index(b"-----BEGIN CERTIFICATE") :]
    for content, expected in (
        (b"\xfe\xed\xfe\xed", "expected one private key and its certificates, in PEM"),
        (certificate, "expected one private key and its certificates, in PEM"),
        (key, "expected one private key and its certificates, in PEM"),
        (own + other, "expected one private key"),
        (key + other[other.index(b"-----BEGIN CERTIFICATE") :], "OpenSSL refuses it: KEY_VALUES_MISMATCH"),
        (
            own.replace(b"BEGIN PRIVATE", b"BEGIN ENCRYPTED PRIVATE").replace(b"END PR", b"END ENCRYPTED PR"),
            "encrypted",
        ),
    ):
        line = refusal(partial(read_tls_files, written(content), stores.truststore, host=None))
        assert line.startswith("ssl.keystore.location: ")
        assert expected in line
    line = refusal(lambda: read_tls_files(stores.keystore, written(b"nothing"), host=None))
    assert line.startswith("ssl.truststore.location: ")
    assert "can be read by others" in refusal(lambda: read_tls_files(written(own, 0o644), stores.truststore, host=None))
    read_tls_files(written(own, 0o640), stores.truststore, host=None)


@pytest.mark.parametrize(
    ("name", "host", "covers"),
    [
        ("kraft-1.example", "kraft-1.example", True),
        ("Kraft-1.Example.", "kraft-1.example", True),
        ("*.example.com", "kraft-1.example.com", True),
        ("*.example.com", "a.b.example.com", False),
        ("*.example.com", "example.com", False),
        ("*.com", "example.com", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("kraft-1.example", "kraft-2.example", False),
        ("*", "localhost", False),
    ],
)
def test_a_certificate_covers_the_hosts_that_it_names(name: str, host: str, covers: bool) -> None:
    assert certificate_name_covers(name, host) is covers


class Call:
    """The parts of a call that the credentials read."""

    def __init__(self, *names: bytes) -> None:
        self._names = names

    def invocation_metadata(self) -> None:
        return None

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_subject_alternative_name": list(self._names)}


def test_a_voters_certificate_has_to_name_the_host_of_that_voter(stores: Stores, tmp_path: Path) -> None:
    with_tls = credentials(tmp_path, **{key.replace(".", "_"): value for key, value in stores.settings.items()})

    def objection(*names: bytes) -> str | None:
        return with_tls.objection_to_voter(cast(grpc.aio.ServicerContext[Any, Any], Call(*names)), 2)

    assert objection(b"localhost", b"127.0.0.1") is None
    assert objection(b"elsewhere.example") == (
        "its certificate is for elsewhere.example, not for 127.0.0.1, the host of voter 2"
    )
    assert objection() == "its certificate is for nobody, not for 127.0.0.1, the host of voter 2"


async def _echo(request: bytes, _context: object) -> bytes:
    return request


class _Echo(grpc.GenericRpcHandler):
    def service(self, _details: object) -> Any:
        return grpc.unary_unary_rpc_method_handler(_echo, bytes, bytes)


def answered(server: NodeCredentials, client: NodeCredentials) -> bool:
    """Return whether a call of the client to the server's CONTROLLER listener succeeds."""
    return failure(server, client) is None


def failure(server: NodeCredentials, client: NodeCredentials) -> str | None:
    """Return gRPC's error for such a call; None if it succeeds."""

    async def run() -> str | None:
        async with listening(server) as address:
            return await error_at(address, client)

    return asyncio.run(run())


@asynccontextmanager
async def listening(server: NodeCredentials) -> AsyncIterator[str]:
    """The address of the server's CONTROLLER listener."""
    gatekeeper = server.gatekeeper(CONTROLLER)
    listener = grpc.aio.server(interceptors=[gatekeeper])
    gatekeeper.add_to(listener)
    listener.add_generic_rpc_handlers((_Echo(),))
    secured = server.server_credentials(CONTROLLER)
    bind = listener.add_insecure_port if secured is None else lambda at: listener.add_secure_port(at, secured)
    port = bind(f"{HOST}:0")
    await listener.start()
    try:
        yield f"{HOST}:{port}"
    finally:
        await listener.stop(None)


async def error_at(address: str, client: NodeCredentials) -> str | None:
    try:
        dialed: Any = client.dial_controller(address, [])
        async with dialed as channel:
            assert await channel.unary_unary(METHOD)(b"x", timeout=30) == b"x"
            return None
    except grpc.aio.AioRpcError as error:
        return error.details() or "refused"


def test_a_certificate_that_no_other_node_would_accept_is_refused_at_the_start(
    stores: Stores, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "stranger").certify("node")
    for keystore, host, expected in (
        (stranger.keystore, None, "unable to get local issuer certificate"),
        (stores.keystore, "kraft-1.example", "Hostname mismatch, certificate is not valid for 'kraft-1.example'"),
        (authority.certify("bare", "DNS:elsewhere.example").keystore, HOST, "IP address mismatch"),
    ):
        line = refusal(partial(read_tls_files, keystore, stores.truststore, host=host))
        assert f"no node that trusts {stores.truststore} would accept it: {expected}" in line
    read_tls_files(stores.keystore, stores.truststore, host="localhost")


def made(directory: Path, found: Stores | None) -> NodeCredentials:
    settings = {} if found is None else {key.replace(".", "_"): value for key, value in found.settings.items()}
    return credentials(directory, **settings)


def with_other_files(directory: Path, stores: Stores, other: TlsFiles) -> NodeCredentials:
    """Return credentials of a stranger, who does not check its own files."""
    crafty = made(directory / "crafty", stores)
    assert crafty._tls is not None
    crafty._tls._files._context = other
    return crafty


def test_only_nodes_certified_by_the_same_authority_connect(
    stores: Stores, authority: Authority, tmp_path: Path
) -> None:
    def crafty(other: TlsFiles) -> NodeCredentials:
        return with_other_files(tmp_path, stores, other)

    server, own = made(tmp_path / "server", stores), read_tls_files(stores.keystore, stores.truststore, host=None)
    strangers = Authority(tmp_path, "stranger").certify("node")
    stranger = read_tls_files(strangers.keystore, strangers.truststore, host=None)
    elsewhere = authority.certify("elsewhere", "DNS:elsewhere.example")
    misplaced = read_tls_files(elsewhere.keystore, elsewhere.truststore, host=None)
    assert answered(server, made(tmp_path / "peer", authority.certify("peer")))
    assert answered(server, crafty(misplaced)), "who dials is asked for no host"
    assert not answered(server, crafty(stranger))
    assert not answered(server, crafty(replace(stranger, trusted=own.trusted)))
    assert not answered(server, crafty(replace(own, trusted=stranger.trusted)))
    assert not answered(server, made(tmp_path / "open", None))
    assert not answered(made(tmp_path / "open-server", None), server)
    assert not answered(crafty(misplaced), server), "the dialing side looks for the host in the certificate"


def test_only_those_with_the_secret_are_answered_where_certificates_are_not_asked_for(tmp_path: Path) -> None:
    server, peer, stranger = (credentials(tmp_path / name) for name in ("server", "peer", "stranger"))
    stranger._secrets = None
    other = tmp_path / "other"
    machine_secret.write_new(other)
    assert answered(server, peer)
    assert not answered(server, stranger)
    assert not answered(server, credentials(tmp_path / "other-cluster", cluster_secret_file=str(other)))


def test_certificates_alone_will_do_where_nodes_share_no_secret(stores: Stores, tmp_path: Path) -> None:
    server, peer = made(tmp_path / "server", stores), made(tmp_path / "peer", stores)
    server._secrets = peer._secrets = None
    assert answered(server, peer)


def test_the_caller_gets_the_reason_of_a_failed_handshake(stores: Stores, authority: Authority, tmp_path: Path) -> None:
    def line_of(server: NodeCredentials, client: NodeCredentials) -> str:
        found = client.handshake_failure(failure(server, client) or "")
        assert found is not None
        return found

    own, no_tls = made(tmp_path / "own", stores), made(tmp_path / "open", None)
    strangers = Authority(tmp_path, "stranger").certify("node")
    stranger = read_tls_files(strangers.keystore, strangers.truststore, host=None)
    trusting_us = with_other_files(tmp_path, stores, replace(stranger, trusted=stores.truststore.read_bytes()))
    elsewhere = authority.certify("elsewhere", "DNS:elsewhere.example")
    misplaced = with_other_files(tmp_path, stores, read_tls_files(elsewhere.keystore, elsewhere.truststore, host=None))
    assert "certificate is not trusted by ssl.truststore.location (unable to get" in line_of(trusting_us, own)
    assert "certificate is not for the host name that was dialled" in line_of(misplaced, own)
    assert "it may not trust this node's certificate: compare ssl.truststore.location there" in line_of(
        own, trusting_us
    )
    assert "it does not use TLS: compare listener.security.protocol.map" in line_of(no_tls, own)
    assert "it may expect TLS: compare listener.security.protocol.map" in line_of(own, no_tls)


def test_certificates_of_controllers_are_renewed_at_both_ends_without_a_restart(
    authority: Authority, tmp_path: Path
) -> None:
    """Of one node after the other, by another authority: while both are trusted, and after the old one is gone."""
    other = Authority(tmp_path, "other")
    nodes, dials = [], []
    for name in ("first", "second"):
        trusted = tmp_path / f"{name}-trusted.pem"
        trusted.write_bytes(authority.certificate.read_bytes() + other.certificate.read_bytes())
        stores = Stores(authority.certify(name).keystore, trusted)
        nodes.append((name, stores, made(tmp_path / name, stores)))
        dials.append(nodes[-1][2].dial_controller.generation())
    (_, _, first), (_, _, second) = nodes

    def renewed() -> None:
        for credentials in (first, second):
            assert credentials._tls is not None
            asyncio.run(credentials._tls._files.check())
            assert answered(first, second)
            assert answered(second, first)

    for name, stores, _ in nodes:
        os.replace(other.certify(name).keystore, stores.keystore)
        renewed()
    for _, stores, _ in nodes:
        stores.truststore.write_bytes(other.certificate.read_bytes())
        renewed()
    assert [node.dial_controller.generation() for _, _, node in nodes] == [each + 2 for each in dials]
    assert not answered(first, made(tmp_path / "old", authority.certify("old")))
    first_stores = nodes[0][1]
    first_stores.truststore.write_bytes(authority.certificate.read_bytes())
    with capture_logs() as lines:
        renewed()
    assert [line["event"] for line in lines] == ["certificates not renewed"]


def test_an_open_listener_shows_and_trusts_renewed_certificates(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    own, trusted = authority.certify("open"), tmp_path / "trusted.pem"
    trusted.write_bytes(authority.certificate.read_bytes())
    server = made(tmp_path / "server", Stores(own.keystore, trusted))
    old, new = made(tmp_path / "old", authority.certify("old")), made(tmp_path / "new", other.certify("new"))
    renewed = other.certify("renewed").keystore

    async def scene() -> None:
        async with listening(server) as address:
            assert [await error_at(address, old) is None, await error_at(address, new) is None] == [True, False]
            os.replace(renewed, own.keystore)
            await asyncio.to_thread(trusted.write_bytes, other.certificate.read_bytes())
            assert server._tls is not None
            await server._tls._files.check()
            assert [await error_at(address, old) is None, await error_at(address, new) is None] == [False, True]

    asyncio.run(scene())


def test_tls_is_for_the_controllers_only(stores: Stores, tmp_path: Path) -> None:
    made = credentials(tmp_path, **{key.replace(".", "_"): value for key, value in stores.settings.items()})
    assert made.server_credentials(CONTROLLER) is not None
    assert made.server_credentials(GRPC) is None
