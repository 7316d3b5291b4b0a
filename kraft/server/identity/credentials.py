"""Authentication among the nodes of a cluster: a shared secret, certificates, or both.

An error in their files is one line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import grpc
import grpc.aio

from kraft.model.callbacks import NowMs
from kraft.quorum.config import FRAME_BYTES_MAX
from kraft.rpc.client_gate import ClientGate
from kraft.rpc.connection_failures import handshake_failure
from kraft.rpc.gatekeeper import REPLICATION_SERVICE, Gatekeeper, KnownNodes, introduced_node_id
from kraft.rpc.introduced_channel import IntroducedChannel
from kraft.rpc.peers import Dial, dial_openly, generation_of
from kraft.rpc.refusal_log import RefusalLog
from kraft.rpc.secure_channel import TlsDial, server_credentials
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import CONTROLLER, GRPC
from kraft.server.identity.certificate_expiry import CertificateExpiry
from kraft.server.identity.certificate_principals import grpc_principal
from kraft.server.identity.cluster_secrets import WatchedSecrets
from kraft.server.identity.controller_tls import ControllerTls
from kraft.server.identity.credential_files import CredentialsError
from kraft.server.identity.kafka_tls import KafkaTls
from kraft.tls.store_files import StoreError
from kraft.tls.stores import TlsSettings

ChannelOptions = Sequence[tuple[str, Any]]

Made = TypeVar("Made")


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
        self._tls = _controller_tls(config)
        self.dial_controller = NodeDial(self._tls or dial_openly, self._introduced)
        self.dial_broker = NodeDial(_broker_dial(config.security_of(GRPC).tls), self._introduced)
        """Dials the GRPC listeners of the brokers, which all have the security of this node's."""

    async def watch(self, wall_ms: NowMs) -> None:
        """Follow the files of the secrets and of TLS until cancelled, and remind of certificates that expire."""
        expiry = CertificateExpiry(self._config, wall_ms)
        followed = [self._watched_secrets.watch(), self.kafka_tls.watch(), expiry.watch()]
        await asyncio.gather(*followed, *([] if self._tls is None else [self._tls.watch()]))

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
            principal_of=grpc_principal(security.tls) if listener != CONTROLLER else None,
            known_nodes=self._known_nodes(listener),
        )

    def _known_nodes(self, listener: str) -> KnownNodes:
        if listener == CONTROLLER:
            return KnownNodes.EVERY_CALLER
        # Nodes are not asked what they may do.
        return KnownNodes.IF_INTRODUCED if self._config.access.authorizer_class else KnownNodes.WHERE_NEEDED

    def server_credentials(self, listener: str) -> grpc.ServerCredentials | None:
        """Return the TLS credentials of a listener; None without TLS. Raises CredentialsError."""
        if listener != CONTROLLER:
            tls = self._config.security_of(listener).tls
            return None if tls is None else _usable(lambda: server_credentials(tls))
        if self._tls is None:
            return None
        return self._tls.server_credentials()

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

    def handshake_failure(self, details: str) -> str | None:
        """Return the reason if these `details` of a failed call are a failed handshake, see `connection_failures`."""
        return handshake_failure(details, uses_tls=self._tls is not None)

    def _introduced(self, channel: grpc.aio.Channel) -> grpc.aio.Channel:
        if self._secrets is None:
            return channel
        return IntroducedChannel(channel, self._secrets, self._cluster_id, self._config.node_id)


class NodeDial:
    """Opens channels to nodes: inside TLS if their listeners have it, and with introductions."""

    def __init__(self, dial: Dial, introduced: Callable[[grpc.aio.Channel], grpc.aio.Channel]) -> None:
        self._dial = dial
        self._introduced = introduced
        self.generation = generation_of(dial)

    def __call__(self, address: str, options: ChannelOptions) -> grpc.aio.Channel:
        return self._introduced(self._dial(address, list(options)))


def _controller_tls(config: NodeConfig) -> ControllerTls | None:
    """Raises CredentialsError."""
    tls = config.security_of(CONTROLLER).tls
    if tls is None:
        return None
    own = next((voter for voter in config.quorum.voters if voter.node_id == config.node_id), None)
    return ControllerTls(tls, host=None if own is None else own.host)


def _broker_dial(tls: TlsSettings | None) -> Dial:
    """Raises CredentialsError."""
    return dial_openly if tls is None else _usable(lambda: TlsDial(tls, trusts_own=True))


def _usable(made: Callable[[], Made]) -> Made:
    """Return what is made of stores. Raises CredentialsError."""
    try:
        return made()
    except StoreError as error:
        raise CredentialsError(str(error)) from None


_ALTERNATIVE_NAMES: Final = "x509_subject_alternative_name"


def certificate_name_covers(name: str, host: str) -> bool:
    """Return whether a certificate's name covers a host; a star matches the first label. Source: RFC 6125."""
    name, host = name.lower().rstrip("."), host.lower().rstrip(".")
    if name.startswith("*."):
        first, _, rest = host.partition(".")
        return bool(first) and rest == name[2:] and "." in rest
    return name == host
