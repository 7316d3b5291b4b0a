"""Keys of authentication and encryption: among nodes, and of each listener."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraft.model.config_keys import key, password, whole_number
from kraft.model.config_types import INT64_MAX
from kraft.model.password import Password
from kraft.sasl.mechanisms import SaslMechanism
from kraft.server.config import readers, security_readers
from kraft.server.config.values import CONTROLLER, GRPC, SecurityProtocol
from kraft.tls.stores import DEFAULT_PRINCIPAL_RULES, ClientAuth, StoreType, TlsVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsKeys:
    keystore_type: StoreType | None = key(
        "ssl.keystore.type",
        security_readers.store_type,
        "Format of the keystore: PEM or PKCS12. By default PKCS12 with ssl.keystore.password, otherwise PEM.",
        default=None,
    )
    keystore_file: Path | None = key(
        "ssl.keystore.location",
        readers.file,
        "File with the node's private key and its certificates.",
        default=None,
    )
    keystore_password: Password | None = key(
        "ssl.keystore.password", password, "Password of a PKCS12 keystore.", default=None
    )
    key_password: Password | None = key(
        "ssl.key.password", password, "Password of the private key, if it is encrypted.", default=None
    )
    certificate_chain: Password | None = key(
        "ssl.keystore.certificate.chain",
        password,
        "Certificates of the node as PEM text, in place of a file.",
        default=None,
    )
    private_key: Password | None = key(
        "ssl.keystore.key", password, "Private key of the node as PEM text, in place of a file.", default=None
    )
    truststore_type: StoreType | None = key(
        "ssl.truststore.type",
        security_readers.store_type,
        "Format of the truststore: PEM or PKCS12. By default PKCS12 with ssl.truststore.password, otherwise PEM.",
        default=None,
    )
    truststore_file: Path | None = key(
        "ssl.truststore.location",
        readers.file,
        "File with the certificates of the CAs: on CONTROLLER those of this cluster's nodes, elsewhere of clients.",
        default=None,
    )
    truststore_password: Password | None = key(
        "ssl.truststore.password", password, "Password of a PKCS12 truststore.", default=None
    )
    trusted_certificates: Password | None = key(
        "ssl.truststore.certificates",
        password,
        "Certificates of the CAs as PEM text, in place of a file.",
        default=None,
    )
    client_auth: ClientAuth | None = key(
        "ssl.client.auth",
        security_readers.client_auth,
        "Whether clients show certificates: none, requested or required. By default none; nodes always have to.",
        default=None,
    )
    protocols: tuple[TlsVersion, ...] = key(
        "ssl.enabled.protocols",
        security_readers.tls_versions,
        "Versions of TLS. Older ones are never offered.",
        default=tuple(TlsVersion),
    )
    cipher_suites: tuple[str, ...] = key(
        "ssl.cipher.suites", security_readers.suites, "Cipher suites. By default OpenSSL's.", default=()
    )
    principal_mapping_rules: str = key(
        "ssl.principal.mapping.rules",
        security_readers.principal_rules,
        "Rules that make a principal of a certificate's name (KIP-371).",
        default=DEFAULT_PRINCIPAL_RULES,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslKeys:
    mechanisms: tuple[SaslMechanism, ...] = key(
        "sasl.enabled.mechanisms",
        security_readers.mechanisms,
        "Mechanisms by which clients log in. Kafka's default is GSSAPI (Kerberos), which is not supported.",
        default=(SaslMechanism.SCRAM_SHA_512, SaslMechanism.SCRAM_SHA_256),
    )
    reauthentication_ms_max: int = key(
        "connections.max.reauth.ms",
        whole_number(0, INT64_MAX),
        "Time after which a client has to log in again; 0 means never, but for tokens that expire.",
        default=0,
    )
    receive_bytes_max: int = key(
        "sasl.server.max.receive.size",
        whole_number(1_024, 512 * 1_024),
        "Largest request of a client that has not logged in, in bytes.",
        default=512 * 1_024,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthBearerSettings:
    """How the tokens of OAUTHBEARER are verified (KIP-768)."""

    jwks_url: str = key(
        "sasl.oauthbearer.jwks.endpoint.url",
        security_readers.jwks_url,
        "Keys of the authorization server: https://HOST/PATH, or file:///PATH.",
        default="",
    )
    """Like issuer and audiences, never empty where OAUTHBEARER is enabled."""
    expected_audiences: tuple[str, ...] = key(
        "sasl.oauthbearer.expected.audience",
        security_readers.names,
        "Audiences, one of which a token has to name.",
        default=(),
    )
    expected_issuer: str | None = key(
        "sasl.oauthbearer.expected.issuer",
        readers.plain_text,
        "Issuer that a token has to name.",
        default=None,
    )
    clock_skew_s: int = key(
        "sasl.oauthbearer.clock.skew.seconds",
        whole_number(0),
        "Seconds by which the clock of the authorization server may differ.",
        default=30,
    )
    scope_claim: str = key(
        "sasl.oauthbearer.scope.claim.name", readers.plain_text, "Claim with the scopes of a token.", default="scope"
    )
    subject_claim: str = key(
        "sasl.oauthbearer.sub.claim.name", readers.plain_text, "Claim with the user of a token.", default="sub"
    )
    jwks_refresh_ms: int = key(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        whole_number(1_000, INT64_MAX),
        "Interval at which the keys are fetched again.",
        default=3_600_000,
    )
    retry_backoff_ms: int = key(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        whole_number(1, INT64_MAX),
        "Pause after a failed fetch of the keys; it doubles with each further one.",
        default=100,
    )
    retry_backoff_ms_max: int = key(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        whole_number(1, INT64_MAX),
        "Longest pause between fetches of the keys.",
        default=10_000,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerKeys:
    """Keys that `listener.name.NAME.` before them sets for one listener."""

    tls: TlsKeys
    sasl: SaslKeys
    oauth_bearer: OAuthBearerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """Authentication among the nodes of a cluster, by default with a secret of this machine, and of clients."""

    secret_file: Path | None = key(
        "cluster.secret.file",
        readers.file,
        "File with a secret that all nodes of the cluster share. It may have several, one a line: the first that the"
        " other node knows is used, all are accepted. A change is noticed within 2 s. Kraft only.",
        default=None,
    )
    protocols: tuple[tuple[str, SecurityProtocol], ...] = key(
        "listener.security.protocol.map",
        security_readers.security_protocols,
        "Security protocols of listeners, as NAME:PROTOCOL. A name that is a protocol means it; GRPC and CONTROLLER are"
        " PLAINTEXT. CONTROLLER:SSL is TLS with certificates on both sides.",
        default=(),
    )
    """Names and protocols, including listeners that the node does not have."""
    unauthenticated_listeners: tuple[str, ...] = key(
        "allow.unauthenticated.listeners",
        security_readers.listener_names,
        "Listeners that may be open to other machines without authentication, or with PLAIN without TLS. Kraft only;"
        " ALLOW_PLAINTEXT_LISTENER=yes in the environment allows it for all.",
        default=(),
    )
    for_all: ListenerKeys
    """What holds for listeners without a value of their own."""

    def protocol_of(self, name: str) -> SecurityProtocol | None:
        """Return the protocol of a listener; None if nothing says it."""
        return {**_DEFAULT_PROTOCOLS, **dict(self.protocols)}.get(name)

    @property
    def controllers_use_tls(self) -> bool:
        return self.protocol_of(CONTROLLER) is SecurityProtocol.SSL


_DEFAULT_PROTOCOLS: Final = {
    **{protocol.value: protocol for protocol in SecurityProtocol},
    CONTROLLER: SecurityProtocol.PLAINTEXT,
    GRPC: SecurityProtocol.PLAINTEXT,
}
