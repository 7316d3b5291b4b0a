"""Nodes at which clients log in, one for each transport, and the settings of clients there, in the words of each.

Each node has listeners of both protocols, GRPC's and Kafka's, and lets clients in by each mechanism.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from kraft.server.config.properties import serialize
from kraft.testing import Cluster
from tests.support.certificates import Authority, Stores
from tests.support.closed_clusters import PASSWORD, add_user, login_settings
from tests.support.kafka.logins.token_endpoint import token_endpoint
from tests.support.token_issuer import AUDIENCE, ISSUER, TokenIssuer

USER: Final = "alice"


class Transport(StrEnum):
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"
    MUTUAL = "SSL"
    """TLS, where a client's certificate is its login."""


class Mechanism(StrEnum):
    PLAIN = "PLAIN"
    SCRAM_256 = "SCRAM-SHA-256"
    SCRAM_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"
    CERTIFICATE = "certificate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node, and how a client logs in there."""

    transport: Transport
    mechanism: Mechanism
    cluster: Cluster
    shown: Stores
    """The client's own key and certificate."""
    issuer: TokenIssuer
    token_file: Path
    token_url: str

    @property
    def kafka_servers(self) -> str:
        return self.cluster.kafka_bootstrap_servers

    @property
    def grpc_servers(self) -> str:
        return self.cluster.bootstrap_servers

    @property
    def authority(self) -> Path | None:
        """The certificate that clients trust; None without TLS."""
        return None if self.transport is Transport.SASL_PLAINTEXT else self.shown.truststore

    @property
    def keystore(self) -> Path | None:
        return self.shown.keystore if self.mechanism is Mechanism.CERTIFICATE else None

    def token(self) -> str:
        return self.issuer.token(USER)

    @property
    def of_java(self) -> dict[str, str]:
        """Settings by the names of Kafka's own client, which all of ours understand as well."""
        found: dict[str, str] = {"security.protocol": self.transport.value}
        if self.authority is not None:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
        if self.keystore is not None:
            return {**found, "ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.keystore)}
        if self.mechanism is not Mechanism.OAUTHBEARER:
            return {**found, **login_settings(self.transport, USER, PASSWORD, self.mechanism)}
        oauth_bearer = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLogin"
        return {
            **found,
            "sasl.mechanism": self.mechanism.value,
            "sasl.jaas.config": f"{oauth_bearer}Module required;",
            "sasl.login.callback.handler.class": f"{oauth_bearer}CallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": self.token_file.as_uri(),
        }

    @property
    def of_librdkafka(self) -> dict[str, Any]:
        found: dict[str, Any] = {"security.protocol": self.transport.value}
        if self.authority is not None:
            found["ssl.ca.location"] = str(self.authority)
        if self.keystore is not None:
            return {**found, "ssl.certificate.location": str(self.keystore), "ssl.key.location": str(self.keystore)}
        found["sasl.mechanism"] = self.mechanism.value
        if self.mechanism is not Mechanism.OAUTHBEARER:
            return {**found, "sasl.username": USER, "sasl.password": PASSWORD}
        return {
            **found,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": USER,
            "sasl.oauthbearer.client.secret": PASSWORD,
            "sasl.oauthbearer.token.endpoint.url": self.token_url,
        }

    @property
    def of_python(self) -> dict[str, Any]:
        """Settings of kafka-python and of aiokafka, without those of tokens."""
        found: dict[str, Any] = {"security_protocol": self.transport.value}
        if self.authority is not None:
            found["ssl_context"] = self._context(self.authority)
        if self.mechanism is not Mechanism.CERTIFICATE:
            found["sasl_mechanism"] = self.mechanism.value
        if self.mechanism not in (Mechanism.CERTIFICATE, Mechanism.OAUTHBEARER):
            found |= {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
        return found

    def _context(self, authority: Path) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=authority)
        if self.keystore is not None:
            context.load_cert_chain(self.keystore)
        return context

    def file_of_java(self, topic: str) -> Path:
        """Write the settings into a file of this topic's client."""
        return self._file(topic, {"bootstrap.servers": self.kafka_servers, **self.of_java})

    def file_for_commands(self, topic: str) -> Path:
        return self._file(topic, self.of_java)

    def _file(self, topic: str, settings: Mapping[str, str]) -> Path:
        file = self.token_file.with_name(f"{topic}.properties")
        file.touch(mode=0o600)
        file.write_bytes(serialize(settings))
        return file


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedNodes:
    nodes: Mapping[Transport, Cluster]
    shown: Stores
    issuer: TokenIssuer
    token_file: Path
    token_url: str

    def place(self, transport: Transport, mechanism: Mechanism) -> Place:
        return Place(
            transport=transport,
            mechanism=mechanism,
            cluster=self.nodes[transport],
            shown=self.shown,
            issuer=self.issuer,
            token_file=self.token_file,
            token_url=self.token_url,
        )


@contextmanager
def closed_nodes(directory: Path, transports: Iterable[Transport] = tuple(Transport)) -> Iterator[ClosedNodes]:
    """Run a node for each of these transports. Their files are in the directory."""
    authority, issuer = Authority(directory), TokenIssuer()
    stores = authority.certify("node")
    tls = {"ssl.keystore.location": str(stores.keystore), "ssl.truststore.location": str(stores.truststore)}
    sasl = {
        "sasl.enabled.mechanisms": ",".join(each for each in Mechanism if each is not Mechanism.CERTIFICATE),
        "sasl.oauthbearer.jwks.endpoint.url": issuer.write(directory / "keys.json"),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    certificates = {f"listener.name.{name}.ssl.client.auth": "required" for name in ("grpc", "plaintext")}
    settings = {
        Transport.SASL_PLAINTEXT: sasl,
        Transport.SASL_SSL: {**sasl, **tls},
        Transport.MUTUAL: {**certificates, **tls},
    }
    with ExitStack() as running:
        nodes = {each: running.enter_context(_node(each, settings[each])) for each in transports}
        token_file = directory / "token"
        token_file.write_text(issuer.token(USER))
        yield ClosedNodes(
            nodes=nodes,
            shown=authority.certify(USER),
            issuer=issuer,
            token_file=token_file,
            token_url=running.enter_context(token_endpoint(lambda: issuer.token(USER))),
        )


@contextmanager
def _node(transport: Transport, settings: Mapping[str, str]) -> Iterator[Cluster]:
    own = {
        "listener.security.protocol.map": f"GRPC:{transport},PLAINTEXT:{transport}",
        "group.initial.rebalance.delay.ms": "0",
    }
    with Cluster(1, overrides={**settings, **own}) as node:
        if transport is not Transport.MUTUAL:
            add_user(node, USER)
        yield node
