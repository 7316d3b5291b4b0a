"""Authentication among the nodes of a cluster: a shared secret, certificates, or both.

An error in their files is one line.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
from msgspec import Struct

from kraft.quorum.config import FRAME_BYTES_MAX
from kraft.rpc.client_gate import ClientGate
from kraft.rpc.connection_failures import handshake_failure
from kraft.rpc.gatekeeper import REPLICATION_SERVICE, Gatekeeper, introduced_node_id
from kraft.rpc.introduced_channel import IntroducedChannel
from kraft.rpc.peers import dial_openly
from kraft.rpc.refusal_log import RefusalLog
from kraft.rpc.secure_channel import TlsDial, server_credentials
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import CONTROLLER, GRPC
from kraft.server.identity.certificate_principals import principal_of_certificate
from kraft.server.identity.cluster_secrets import WatchedSecrets
from kraft.server.identity.credential_files import CredentialsError, read, read_private
from kraft.server.identity.kafka_tls import KafkaTls
from kraft.tls.store_files import StoreError
from kraft.tls.stores import KeyStoreFile, TlsSettings, TrustStoreFile

_PEM_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----", re.DOTALL)

ChannelOptions = Sequence[tuple[str, Any]]

Made = TypeVar("Made")


class TlsFiles(Struct, frozen=True, kw_only=True):
    """PEM: the node's own `private_key` and `certificates`, and the `trusted` certificates of the others' CAs."""

    private_key: bytes
    certificates: bytes
    trusted: bytes


class NodeCredentials:
    """Credentials of one node. Its channels and gatekeepers have to be used inside the event loop."""

    def __init__(self, config: NodeConfig, cluster_id: str, refusals: RefusalLog) -> None:
        """Read the files that the configuration names. Raises CredentialsError."""
        self.refusals = refusals
        self._config = config
        self._cluster_id = cluster_id
        self._watched_secrets = WatchedSecrets(config, cluster_id)
        self._secrets = self._watched_secrets.secrets
        self.kafka_tls = KafkaTls(config)
        self._tls: TlsFiles | None = None
        tls = config.security_of(CONTROLLER).tls
        if tls is not None:
            own = next((voter for voter in config.quorum.voters if voter.node_id == config.node_id), None)
            assert isinstance(tls.key_store, KeyStoreFile), "the configuration was checked"
            assert isinstance(tls.trust_store, TrustStoreFile), "the configuration was checked"
            self._tls = read_tls_files(tls.key_store.path, tls.trust_store.path, host=None if own is None else own.host)

        self.dial_broker = BrokerDial(config.security_of(GRPC).tls, self._introduced)
        """Dials the GRPC listeners of the brokers, which all have the security of this node's."""

    async def watch(self) -> None:
        """Follow the files of the secrets and of TLS until cancelled."""
        await asyncio.gather(self._watched_secrets.watch(), self.kafka_tls.watch())

    # --- checks of others ---

    def gatekeeper(self, listener: str, clients: ClientGate | None = None) -> Gatekeeper:
        """Return the gatekeeper of a listener.

        On CONTROLLER every call is for nodes only, on GRPC only those of replication, and `clients` admits the others.
        Without a shared secret, CONTROLLER has TLS, which admits nobody without a certificate.
        """
        security = self._config.security_of(listener)
        if clients is not None and self._secrets is None:
            raise CredentialsError(
                f"{listener} asks clients to log in, and does not know other nodes: set cluster.secret.file"
            )
        asks_for_certificate = self._secrets is None and self._tls is not None
        return Gatekeeper(
            cluster_id=self._cluster_id,
            cluster_secrets=self._secrets,
            is_guarded=(
                (lambda _: not asks_for_certificate)
                if listener == CONTROLLER
                else lambda method: method.startswith(REPLICATION_SERVICE)
            ),
            message_bytes_max=FRAME_BYTES_MAX if listener == CONTROLLER else None,
            refusals=self.refusals,
            listener=listener,
            clients=clients,
            login_bytes_max=None if security.sasl is None else security.sasl.receive_bytes_max,
            principal_of=principal_of_certificate(security.tls) if listener != CONTROLLER else None,
        )

    def server_credentials(self, listener: str) -> grpc.ServerCredentials | None:
        """Return the TLS credentials of a listener; None without TLS. Raises CredentialsError."""
        if listener != CONTROLLER:
            tls = self._config.security_of(listener).tls
            return None if tls is None else _usable(lambda: server_credentials(tls))
        if self._tls is None:
            return None
        return grpc.ssl_server_credentials(
            [(self._tls.private_key, self._tls.certificates)], self._tls.trusted, require_client_auth=True
        )

    def objection_to_voter(self, context: grpc.aio.ServicerContext[Any, Any], voter_id: int) -> str | None:
        """Return why the caller cannot be that voter; None if it may be."""
        introduced = introduced_node_id(context.invocation_metadata() or ())
        if introduced is not None and introduced != voter_id:
            return f"node {introduced} claims to be voter {voter_id}"
        if self._tls is not None:
            return self._objection_to_certificate(context, voter_id)
        return None

    def _objection_to_certificate(self, context: grpc.aio.ServicerContext[Any, Any], voter_id: int) -> str | None:
        names = [name.decode("utf-8", "replace") for name in context.auth_context().get(_ALTERNATIVE_NAMES, [])]
        host = next(voter.host for voter in self._config.quorum.voters if voter.node_id == voter_id)
        if any(certificate_name_covers(name, host) for name in names):
            return None
        return (
            f"its certificate is for {', '.join(names)[:200] or 'nobody'}, not for {host}, the host of voter {voter_id}"
        )

    # --- connections to others ---

    def dial_controller(self, address: str, options: ChannelOptions) -> grpc.aio.Channel:
        if self._tls is None:
            return self._introduced(grpc.aio.insecure_channel(address, options=options))
        credentials = grpc.ssl_channel_credentials(self._tls.trusted, self._tls.private_key, self._tls.certificates)
        return self._introduced(grpc.aio.secure_channel(address, credentials, options=options))

    def handshake_failure(self, details: str) -> str | None:
        """Return the reason if these `details` of a failed call are a failed handshake, see `connection_failures`."""
        return handshake_failure(details, uses_tls=self._tls is not None)

    def _introduced(self, channel: grpc.aio.Channel) -> grpc.aio.Channel:
        if self._secrets is None:
            return channel
        return IntroducedChannel(channel, self._secrets, self._cluster_id, self._config.node_id)


class BrokerDial:
    """Opens channels to brokers: inside TLS if their listeners have it, and with introductions."""

    def __init__(self, tls: TlsSettings | None, introduced: Callable[[grpc.aio.Channel], grpc.aio.Channel]) -> None:
        """Raises CredentialsError."""
        self._tls = None if tls is None else _usable(lambda: TlsDial(tls, trusts_own=True))
        self._introduced = introduced

    def generation(self) -> int:
        return 0 if self._tls is None else self._tls.generation()

    def __call__(self, address: str, options: list[tuple[str, Any]]) -> grpc.aio.Channel:
        return self._introduced((self._tls or dial_openly)(address, options))


def _usable(made: Callable[[], Made]) -> Made:
    """Return what is made of stores. Raises CredentialsError."""
    try:
        return made()
    except StoreError as error:
        raise CredentialsError(str(error)) from None


_HANDSHAKE_TURNS: Final = 4
"""Messages of each end at most; an end that waits for more has already checked the other."""

_ALTERNATIVE_NAMES: Final = "x509_subject_alternative_name"


def read_tls_files(keystore: Path, truststore: Path, *, host: str | None) -> TlsFiles:
    """Read the files of a node with TLS.

    Raises CredentialsError for files that OpenSSL, or another node with this truststore, would refuse. That is checked
    here because gRPC does not report whose handshake failed. `host` is where others connect to this node; None if
    nobody does.
    """
    own = read_private(keystore, "ssl.keystore.location", forbidden=0o007)
    trusted = read(truststore, "ssl.truststore.location")
    keys = [found[0] for found in _PEM_BLOCK.finditer(own) if found[1].endswith(b"PRIVATE KEY")]
    if any(b"ENCRYPTED" in key for key in keys):
        raise CredentialsError(
            f"ssl.keystore.location: {keystore}: an encrypted private key is not supported yet: decrypt it"
        )
    certificates = [found[0] for found in _PEM_BLOCK.finditer(own) if found[1] == b"CERTIFICATE"]
    if len(keys) != 1 or not certificates:
        raise CredentialsError(
            f"ssl.keystore.location: {keystore}: expected one private key and its certificates, in PEM"
        )
    answering, dialing = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    answering.verify_mode, dialing.check_hostname = ssl.CERT_REQUIRED, host is not None
    for context in (answering, dialing):
        try:
            context.load_cert_chain(keystore)
        except ssl.SSLError as error:
            raise CredentialsError(f"ssl.keystore.location: {keystore}: {_openssl_error(error)}") from None
        try:
            context.load_verify_locations(truststore)
        except ssl.SSLError as error:
            raise CredentialsError(f"ssl.truststore.location: {truststore}: {_openssl_error(error)}") from None
    try:
        _shake_hands(answering, dialing, host)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or _openssl_error(error)
        raise CredentialsError(
            f"ssl.keystore.location: {keystore}: no node that trusts {truststore} would accept it: {reason}"
        ) from None
    return TlsFiles(private_key=keys[0], certificates=b"\n".join(certificates), trusted=trusted)


def _shake_hands(answering: ssl.SSLContext, dialing: ssl.SSLContext, host: str | None) -> None:
    """Do a whole handshake in memory, in which each side checks the other's certificate. Raises SSLError."""
    to_answering, to_dialing = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        dialing.wrap_bio(to_dialing, to_answering, server_hostname=host),
        answering.wrap_bio(to_answering, to_dialing, server_side=True),
    ]
    for _ in range(_HANDSHAKE_TURNS):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()


def certificate_name_covers(name: str, host: str) -> bool:
    """Return whether a certificate's name covers a host; a star matches the first label. Source: RFC 6125."""
    name, host = name.lower().rstrip("."), host.lower().rstrip(".")
    if name.startswith("*."):
        first, _, rest = host.partition(".")
        return bool(first) and rest == name[2:] and "." in rest
    return name == host


def _openssl_error(error: ssl.SSLError) -> str:
    return f"OpenSSL refuses it: {error.reason or error}"
