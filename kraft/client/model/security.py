"""Security of a client: TLS, and how it logs in, by the keys of Kafka's clients.

The names of librdkafka and of kafka-python for the same things are accepted too, so that a file or a dict that serves
another client serves this one. No message shows a value that may be secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from kraft.client.model.errors import InvalidSetting
from kraft.model.password import Password
from kraft.sasl.client import PasswordLogin, TokenLogin
from kraft.sasl.jaas import parse_jaas
from kraft.sasl.mechanisms import SaslMechanism
from kraft.tls.stores import (
    KeyStore,
    KeyStoreFile,
    KeyStoreText,
    StoreType,
    TlsSettings,
    TrustStore,
    TrustStoreFile,
    TrustStoreText,
)

TOKEN_BYTES_MAX: Final = 64 * 1024

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_HOW_TO_LOG_IN: Final = (
    "set sasl.jaas.config to a login module with username and password, or set sasl.username and sasl.password"
)
_HOW_TO_CONVERT_JKS: Final = (
    "JKS is Java's own format: convert the store with keytool -importkeystore -srckeystore STORE.jks"
    " -destkeystore STORE.p12 -deststoretype PKCS12, and set PKCS12"
)


@runtime_checkable
class TokenProvider(Protocol):
    """What kafka-python calls `sasl_oauth_token_provider`."""

    def token(self) -> str: ...


class TokenSource(Struct, frozen=True, kw_only=True):
    """Where a client gets its token from, each time that it logs in: a file, or a function, which may block."""

    file: Path | None = None
    function: Callable[[], str] | None = None

    def __repr__(self) -> str:
        return f"TokenSource(file={self.file})" if self.file is not None else "TokenSource(function)"

    def login(self) -> TokenLogin:
        """Return the token of now; this may block. Raises InvalidSetting."""
        token = _read_token(self.file) if self.file is not None else self._called()
        if not token.strip():
            raise InvalidSetting(f"there is no token in {self!r}")
        return TokenLogin(token=Password(token.strip()))

    def _called(self) -> str:
        assert self.function is not None, "a source is a file or a function"
        try:
            token = self.function()
        except Exception as error:
            # It is the user's own, and may raise anything.
            raise InvalidSetting(f"sasl_oauth_token_provider failed: {error!r}") from error
        if not isinstance(token, str):
            raise InvalidSetting(f"sasl_oauth_token_provider returned {type(token).__name__}, not text")
        return token


Credentials: TypeAlias = PasswordLogin | TokenSource


class ClientSecurity(Struct, frozen=True, kw_only=True):
    """TLS and login of a client; neither by default."""

    tls: TlsSettings | None = None
    sasl: Credentials | None = None

    @property
    def protocol(self) -> str:
        """Kafka's name, as security.protocol has it."""
        return PROTOCOLS[(self.tls is not None) + 2 * (self.sasl is not None)]


OPEN: Final = ClientSecurity()

_OTHER_NAMES: Final = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.plain.username": "sasl.username",
    "sasl.plain.password": "sasl.password",
    "ssl.cafile": "ssl.ca.location",
    "ssl.certfile": "ssl.certificate.location",
    "ssl.keyfile": "ssl.key.location",
    "ssl.password": "ssl.key.password",
}
"""Names of librdkafka and of kafka-python."""

_KEYS: Final = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauth.token.provider",
    "sasl.login.callback.handler.class",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.endpoint.identification.algorithm",
    "ssl.check.hostname",
)

_TOKEN_HANDLERS: Final = ("OAuthBearerLoginCallbackHandler",)
"""What gets tokens in Java, by the name of the class; its package differs between versions."""


def is_security_key(name: str) -> bool:
    """Return whether a setting, by its name with dots, is one of security."""
    return name.startswith(("security.", "sasl.", "ssl.", "enable.ssl."))


def client_security(given: Mapping[str, Any]) -> ClientSecurity:
    """Return the security that these keys describe, by their names with dots. Raises InvalidSetting."""
    keys = _Keys(given)
    protocol = keys.text("security.protocol").upper() or "PLAINTEXT"
    if protocol not in PROTOCOLS:
        raise InvalidSetting(f"security.protocol={protocol} is not one of {', '.join(PROTOCOLS)}")
    has_tls, has_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    # Kafka's clients ignore what a protocol does not use. Without any protocol, it was forgotten.
    if keys.names and not keys.has("security.protocol"):
        fitting = ("SSL", "SASL_SSL") if keys.names[0].startswith("ssl.") else ("SASL_PLAINTEXT", "SASL_SSL")
        raise InvalidSetting(
            f"{keys.names[0]} has no effect without security.protocol: set it to {' or '.join(fitting)}"
        )
    return ClientSecurity(tls=_tls(keys) if has_tls else None, sasl=_credentials(keys) if has_sasl else None)


class _Keys:
    """Settings of security by Kafka's names."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given: dict[str, Any] = {}
        for name, value in given.items():
            usual = _OTHER_NAMES.get(name, name)
            if usual not in _KEYS:
                raise InvalidSetting(_unknown(name))
            if usual in self._given:
                raise InvalidSetting(f"{name} and {usual} are the same setting: give one of them")
            self._given[usual] = value
        self.names = tuple(self._given)

    def has(self, name: str) -> bool:
        return name in self._given

    def value(self, name: str) -> Any:
        return self._given.get(name)

    def text(self, name: str) -> str:
        """Return the value; empty if there is none. Raises InvalidSetting."""
        value = self._given.get(name)
        if isinstance(value, Password):
            return value.text
        if value is not None and not isinstance(value, (str, Path)):
            raise InvalidSetting(f"{name} has to be text, not {type(value).__name__}")
        return "" if value is None else str(value).strip()

    def password(self, name: str) -> Password | None:
        """Return the secret as it stands: blanks at its ends may be part of it."""
        value = self._given.get(name)
        return Password(value) if isinstance(value, str) and value else value if isinstance(value, Password) else None


def _unknown(name: str) -> str:
    if name.startswith("sasl.kerberos."):
        return f"{name}: Kerberos (GSSAPI) is not supported; use SCRAM, PLAIN or OAUTHBEARER"
    if name == "enable.ssl.certificate.verification":
        return f"{name} is not supported: the certificate of a broker is always verified; set ssl.truststore.location"
    if name in ("ssl.enabled.protocols", "ssl.protocol", "ssl.cipher.suites"):
        return f"{name} is not supported: gRPC chooses among TLS 1.2 and 1.3; leave it out"
    near = difflib.get_close_matches(name, (*_KEYS, *_OTHER_NAMES), n=1)
    return f"{name} is not supported" + (f"; did you mean {near[0]}?" if near else "; leave it out")


# --- login ---------------------------------------------------------------------------------------------------------


def _credentials(keys: _Keys) -> Credentials:
    mechanism = _mechanism(keys)
    user, password = keys.text("sasl.username"), keys.password("sasl.password")
    if keys.has("sasl.jaas.config"):
        user, password = _of_jaas(keys, mechanism, user, password)
    if mechanism is SaslMechanism.OAUTHBEARER:
        return _token_source(keys)
    if not user or password is None:
        raise InvalidSetting(f"sasl.mechanism={mechanism} needs a user and a password: {_HOW_TO_LOG_IN}")
    return PasswordLogin(mechanism=mechanism, user=user, password=password)


def _mechanism(keys: _Keys) -> SaslMechanism:
    name = keys.text("sasl.mechanism").upper()
    supported = ", ".join(SaslMechanism)
    if not name:
        raise InvalidSetting(f"security.protocol needs sasl.mechanism: set it to one of {supported}")
    if name == "GSSAPI":
        raise InvalidSetting(f"sasl.mechanism=GSSAPI: Kerberos is not supported; use one of {supported}")
    if name not in list(SaslMechanism):
        raise InvalidSetting(f"sasl.mechanism={name} is not one of {supported}")
    return SaslMechanism(name)


_MODULES: Final = {
    SaslMechanism.PLAIN: "PlainLoginModule",
    SaslMechanism.SCRAM_SHA_256: "ScramLoginModule",
    SaslMechanism.SCRAM_SHA_512: "ScramLoginModule",
    SaslMechanism.OAUTHBEARER: "OAuthBearerLoginModule",
}


def _of_jaas(
    keys: _Keys, mechanism: SaslMechanism, user: str, password: Password | None
) -> tuple[str, Password | None]:
    """Return user and password of sasl.jaas.config."""
    if user or password is not None:
        raise InvalidSetting("sasl.jaas.config and sasl.username or sasl.password say the same: give one of them")
    try:
        module = parse_jaas(keys.text("sasl.jaas.config"))
    except ValueError as error:
        raise InvalidSetting(f"sasl.jaas.config: {error}") from None
    if module.short_name != _MODULES[mechanism]:
        raise InvalidSetting(
            f"sasl.jaas.config has {module.short_name}, and sasl.mechanism={mechanism} needs {_MODULES[mechanism]}"
        )
    found = module.options.get("password")
    return module.options.get("username", ""), None if found is None else Password(found)


def _token_source(keys: _Keys) -> TokenSource:
    handler = keys.text("sasl.login.callback.handler.class")
    if handler and handler.rpartition(".")[2] not in _TOKEN_HANDLERS:
        raise InvalidSetting(f"sasl.login.callback.handler.class={handler} is not supported; leave it out")
    provider = keys.value("sasl.oauth.token.provider")
    if provider is not None:
        function = provider.token if isinstance(provider, TokenProvider) else provider
        if not callable(function):
            raise InvalidSetting("sasl.oauth.token.provider has to be a function, or have a method token")
        return TokenSource(function=function)
    url = keys.text("sasl.oauthbearer.token.endpoint.url")
    if not url:
        raise InvalidSetting(
            "sasl.mechanism=OAUTHBEARER needs a token: set sasl.oauthbearer.token.endpoint.url=file:///PATH to a file "
            "with one, or in a program sasl_oauth_token_provider to a function that returns one"
        )
    parts = urlsplit(url)
    if parts.scheme != "file" or not parts.path:
        raise InvalidSetting(
            f"sasl.oauthbearer.token.endpoint.url={url} is not supported yet: fetch the token into a file, and give "
            "file:///PATH"
        )
    return TokenSource(file=Path(unquote(parts.path)))


def _read_token(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            return file.read(TOKEN_BYTES_MAX)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"sasl.oauthbearer.token.endpoint.url: cannot read {path}: {error}") from None


# --- TLS -----------------------------------------------------------------------------------------------------------


def _tls(keys: _Keys) -> TlsSettings:
    algorithm = keys.text("ssl.endpoint.identification.algorithm").lower()
    names_off = keys.has("ssl.endpoint.identification.algorithm") and algorithm in ("", "none")
    if names_off or str(keys.value("ssl.check.hostname")).lower() == "false":
        raise InvalidSetting(
            "the host in a broker's certificate is always verified: leave out ssl.endpoint.identification.algorithm "
            "and ssl.check.hostname, and connect by a name that the certificate has"
        )
    if algorithm not in ("", "https"):
        raise InvalidSetting(f"ssl.endpoint.identification.algorithm={algorithm} is not https")
    return TlsSettings(key_store=_key_store(keys), trust_store=_trust_store(keys))


def _trust_store(keys: _Keys) -> TrustStore | None:
    chosen = _one_of(keys, "ssl.truststore.location", "ssl.truststore.certificates", "ssl.ca.location", "ssl.ca.pem")
    if chosen in ("ssl.truststore.certificates", "ssl.ca.pem"):
        return TrustStoreText(certificates=_pem(keys.text(chosen)))
    if chosen == "ssl.ca.location":
        return TrustStoreFile(path=Path(keys.text(chosen)))
    if chosen is None:
        return None
    password = keys.password("ssl.truststore.password")
    kind = _store_type(keys, "ssl.truststore.type", password)
    return TrustStoreFile(path=Path(keys.text(chosen)), type=kind, password=password)


def _key_store(keys: _Keys) -> KeyStore | None:
    chosen = _one_of(
        keys,
        "ssl.keystore.location",
        "ssl.keystore.certificate.chain",
        "ssl.certificate.location",
        "ssl.certificate.pem",
    )
    key_password = keys.password("ssl.key.password")
    match chosen:
        case None:
            return None
        case "ssl.keystore.location":
            password = keys.password("ssl.keystore.password")
            kind = _store_type(keys, "ssl.keystore.type", password)
            path = Path(keys.text(chosen))
            return KeyStoreFile(path=path, type=kind, password=password, key_password=key_password)
        case "ssl.certificate.location":
            chain, key = _read(keys, chosen), _read(keys, "ssl.key.location")
        case _:
            key_name = "ssl.keystore.key" if chosen.startswith("ssl.keystore") else "ssl.key.pem"
            chain, key = _pem(keys.text(chosen)), _pem(keys.text(key_name))
            if not key:
                raise InvalidSetting(f"{chosen} needs {key_name}: set the private key of the certificate")
    return KeyStoreText(certificate_chain=chain, key=Password(key), key_password=key_password)


def _one_of(keys: _Keys, *names: str) -> str | None:
    """Return which of them is given. Raises InvalidSetting for several."""
    given = [name for name in names if keys.text(name)]
    if len(given) > 1:
        raise InvalidSetting(f"{' and '.join(given)} say the same: give one of them")
    return given[0] if given else None


def _store_type(keys: _Keys, name: str, password: Password | None) -> StoreType:
    kind = keys.text(name).upper()
    if kind == "JKS":
        raise InvalidSetting(f"{name}: {_HOW_TO_CONVERT_JKS}")
    if not kind:
        return StoreType.PEM if password is None else StoreType.PKCS12
    if kind not in list(StoreType):
        raise InvalidSetting(f"{name}={kind} is not one of {', '.join(StoreType)}")
    return StoreType(kind)


def _read(keys: _Keys, name: str) -> str:
    path = keys.text(name)
    if not path:
        raise InvalidSetting(f"ssl.certificate.location needs {name}")
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError as error:
        raise InvalidSetting(f"{name}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidSetting(f"{name}: {path} is not PEM") from None


def _pem(text: str) -> str:
    """Return PEM text that stands in one line of a file, with its lines: Kafka accepts both."""
    return text.replace("\\n", "\n")
