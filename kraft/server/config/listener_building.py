"""Makes of a listener's keys what it requires of its clients. Contradictions among them are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraft.model.password import Password
from kraft.sasl.jaas import LoginModule, parse_jaas
from kraft.sasl.mechanisms import SaslMechanism
from kraft.server.config.conflict import Conflict
from kraft.server.config.listener_security import ListenerSecurity, SaslSettings
from kraft.server.config.overrides import JAAS_CONFIG
from kraft.server.config.security_settings import ListenerKeys, OAuthBearerSettings, TlsKeys
from kraft.server.config.values import CONTROLLER, SecurityProtocol
from kraft.tls.stores import (
    ClientAuth,
    KeyStore,
    KeyStoreFile,
    KeyStoreText,
    StoreType,
    TlsSettings,
    TrustStore,
    TrustStoreFile,
    TrustStoreText,
)

_LOGIN_MODULES: Final = {
    SaslMechanism.PLAIN: "PlainLoginModule",
    SaslMechanism.SCRAM_SHA_256: "ScramLoginModule",
    SaslMechanism.SCRAM_SHA_512: "ScramLoginModule",
    SaslMechanism.OAUTHBEARER: "OAuthBearerLoginModule",
}

_USER_PREFIX: Final = "user_"


def listener_security(
    name: str, protocol: SecurityProtocol, keys: ListenerKeys, jaas_configs: Mapping[SaslMechanism, str]
) -> ListenerSecurity:
    """Return what the listener requires. Raises Conflict."""
    return ListenerSecurity(
        protocol=protocol,
        tls=_tls(name, protocol, keys.tls) if protocol.has_tls else None,
        sasl=_sasl(keys, jaas_configs) if protocol.has_sasl else None,
    )


def _tls(name: str, protocol: SecurityProtocol, keys: TlsKeys) -> TlsSettings:
    key_store, trust_store = _key_store(keys), _trust_store(keys)
    if name == CONTROLLER:
        _check_stores_of_nodes(key_store, trust_store)
    if key_store is None:
        raise Conflict(
            "listener.security.protocol.map",
            f"{name}:{protocol} needs the node's private key and its certificates: set ssl.keystore.location",
        )
    client_auth = _client_auth(name, keys)
    if client_auth is not ClientAuth.NONE and trust_store is None:
        raise Conflict("ssl.client.auth", f"{name} needs the CAs of its clients: set ssl.truststore.location")
    return TlsSettings(
        key_store=key_store,
        trust_store=trust_store,
        client_auth=client_auth,
        protocols=keys.protocols,
        cipher_suites=keys.cipher_suites,
        principal_mapping_rules=keys.principal_mapping_rules,
    )


def _check_stores_of_nodes(key_store: KeyStore | None, trust_store: TrustStore | None) -> None:
    for key, store in (("ssl.keystore.location", key_store), ("ssl.truststore.location", trust_store)):
        if not isinstance(store, KeyStoreFile | TrustStoreFile) or store.type is not StoreType.PEM:
            raise Conflict("listener.security.protocol.map", f"CONTROLLER:SSL needs a PEM file: set {key}")


def _client_auth(name: str, keys: TlsKeys) -> ClientAuth:
    if name == CONTROLLER:
        if keys.client_auth not in (None, ClientAuth.REQUIRED):
            raise Conflict(
                "ssl.client.auth",
                "with TLS, nodes always have to show certificates: set"
                " listener.name.controller.ssl.client.auth=required",
            )
        return ClientAuth.REQUIRED
    return keys.client_auth or ClientAuth.NONE


def _key_store(keys: TlsKeys) -> KeyStore | None:
    if keys.keystore_file is not None:
        if keys.certificate_chain is not None or keys.private_key is not None:
            raise Conflict(
                "ssl.keystore.location", "is set beside ssl.keystore.key or its certificates: remove one of them"
            )
        kind = _store_type("ssl.keystore", keys.keystore_type, keys.keystore_password)
        if kind is StoreType.PKCS12 and keys.key_password not in (None, keys.keystore_password):
            raise Conflict("ssl.key.password", "a PKCS12 file has one password: remove the line")
        return KeyStoreFile(
            path=keys.keystore_file, type=kind, password=keys.keystore_password, key_password=keys.key_password
        )
    if keys.certificate_chain is None and keys.private_key is None:
        return None
    if keys.certificate_chain is None or keys.private_key is None:
        missing = "ssl.keystore.key" if keys.private_key is None else "ssl.keystore.certificate.chain"
        given = "ssl.keystore.certificate.chain" if keys.private_key is None else "ssl.keystore.key"
        raise Conflict(given, f"is set without {missing}: set both")
    _check_text_is_pem("ssl.keystore", keys.keystore_type)
    return KeyStoreText(
        certificate_chain=keys.certificate_chain.text, key=keys.private_key, key_password=keys.key_password
    )


def _trust_store(keys: TlsKeys) -> TrustStore | None:
    if keys.truststore_file is not None:
        if keys.trusted_certificates is not None:
            raise Conflict("ssl.truststore.location", "is set beside ssl.truststore.certificates: remove one of them")
        kind = _store_type("ssl.truststore", keys.truststore_type, keys.truststore_password)
        return TrustStoreFile(path=keys.truststore_file, type=kind, password=keys.truststore_password)
    if keys.trusted_certificates is None:
        return None
    _check_text_is_pem("ssl.truststore", keys.truststore_type)
    return TrustStoreText(certificates=keys.trusted_certificates.text)


def _store_type(prefix: str, written: StoreType | None, password: Password | None) -> StoreType:
    if written is StoreType.PEM and password is not None:
        raise Conflict(
            f"{prefix}.password",
            "a PEM file has no password, only its private key may have one: remove the line, or set ssl.key.password",
        )
    return written or (StoreType.PEM if password is None else StoreType.PKCS12)


def _check_text_is_pem(prefix: str, written: StoreType | None) -> None:
    if written is StoreType.PKCS12:
        raise Conflict(f"{prefix}.type", "text in the configuration file is PEM: set PEM, or name a file")


def _sasl(keys: ListenerKeys, jaas_configs: Mapping[SaslMechanism, str]) -> SaslSettings:
    modules = {mechanism: _login_module(mechanism, text) for mechanism, text in jaas_configs.items()}
    plain = modules.get(SaslMechanism.PLAIN)
    users = () if plain is None else _users(plain)
    mechanisms = keys.sasl.mechanisms
    if users and SaslMechanism.PLAIN not in mechanisms:
        raise Conflict(_jaas_key(SaslMechanism.PLAIN), "has no effect: add PLAIN to sasl.enabled.mechanisms")
    has_tokens = SaslMechanism.OAUTHBEARER in mechanisms
    if has_tokens:
        _check_tokens(keys.oauth_bearer)
    return SaslSettings(
        mechanisms=mechanisms,
        reauthentication_ms_max=keys.sasl.reauthentication_ms_max,
        receive_bytes_max=keys.sasl.receive_bytes_max,
        plain_users=users,
        oauth_bearer=keys.oauth_bearer if has_tokens else None,
    )


def _check_tokens(settings: OAuthBearerSettings) -> None:
    """Raise Conflict if tokens could be verified in part only: one for any other service would log its client in."""
    needed = {
        "sasl.oauthbearer.jwks.endpoint.url": (settings.jwks_url, "the authorization server's keys"),
        "sasl.oauthbearer.expected.issuer": (settings.expected_issuer, "the issuer that tokens name"),
        "sasl.oauthbearer.expected.audience": (settings.expected_audiences, "the audience that tokens are for"),
    }
    missing = {key: what for key, (value, what) in needed.items() if not value}
    if missing:
        raise Conflict(
            "sasl.enabled.mechanisms", f"OAUTHBEARER needs {', '.join(missing.values())}: set {', '.join(missing)}"
        )


def _login_module(mechanism: SaslMechanism, text: str) -> LoginModule:
    try:
        module = parse_jaas(text)
    except ValueError as error:
        raise Conflict(_jaas_key(mechanism), str(error)) from None
    if module.short_name != _LOGIN_MODULES[mechanism]:
        raise Conflict(_jaas_key(mechanism), f"expected {_LOGIN_MODULES[mechanism]} as the login module")
    if mechanism is SaslMechanism.OAUTHBEARER and any(name.startswith("unsecured") for name in module.options):
        raise Conflict(_jaas_key(mechanism), "tokens without a signature are never accepted: remove the line")
    return module


def _users(module: LoginModule) -> tuple[tuple[str, Password], ...]:
    """Return the users who may log in. `username` and `password` are those of a broker of Kafka, and nobody's here."""
    users = tuple(
        (name.removeprefix(_USER_PREFIX), Password(value))
        for name, value in module.options.items()
        if name.startswith(_USER_PREFIX)
    )
    for user, password in users:
        if not user or not password.text:
            raise Conflict(
                _jaas_key(SaslMechanism.PLAIN), "a user has no name or no password: write user_NAME=PASSWORD"
            )
    return users


def _jaas_key(mechanism: SaslMechanism) -> str:
    return f"{mechanism.lower()}.{JAAS_CONFIG}"
