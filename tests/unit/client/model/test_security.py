from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraft.client.model.errors import InvalidSetting
from kraft.client.model.security import OPEN, ClientSecurity, TokenSource, client_security
from kraft.model.password import Password
from kraft.sasl.client import PasswordLogin
from kraft.sasl.mechanisms import SaslMechanism
from kraft.tls.stores import KeyStoreFile, KeyStoreText, StoreType, TlsSettings, TrustStoreFile, TrustStoreText

SECRET = "hunter2"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
ALICE = PasswordLogin(mechanism=SaslMechanism.SCRAM_SHA_512, user="alice", password=Password(SECRET))


def scram(**given: Any) -> dict[str, Any]:
    named = {name.replace("__", "."): value for name, value in given.items()}
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", **named}


def tls(**given: Any) -> dict[str, Any]:
    return {"security.protocol": "SSL", **{name.replace("__", "."): value for name, value in given.items()}}


def test_a_client_without_settings_is_open() -> None:
    assert client_security({}) == OPEN == ClientSecurity()
    assert [client_security({"security.protocol": name}).protocol for name in ("PLAINTEXT", "ssl")] == [
        "PLAINTEXT",
        "SSL",
    ]


@pytest.mark.parametrize(
    "given",
    [
        scram(sasl__jaas__config=f'{SCRAM_MODULE} required username="alice" password="{SECRET}";'),
        scram(sasl__username="alice", sasl__password=SECRET),
        {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.plain.username": "alice",
            "sasl.plain.password": SECRET,
        },
    ],
)
def test_a_user_and_its_password_are_read_by_the_names_of_three_clients(given: dict[str, Any]) -> None:
    security = client_security(given)
    assert security == ClientSecurity(sasl=ALICE)
    assert security.protocol == "SASL_PLAINTEXT"
    assert SECRET not in repr(security)


def test_a_password_keeps_its_blanks() -> None:
    security = client_security(scram(sasl__username="alice", sasl__password=" a b "))
    assert isinstance(security.sasl, PasswordLogin)
    assert security.sasl.password.text == " a b "


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        (
            tls(ssl__truststore__location="ca.pem"),
            TlsSettings(trust_store=TrustStoreFile(path=Path("ca.pem"))),
        ),
        (tls(ssl__ca__location="ca.pem"), TlsSettings(trust_store=TrustStoreFile(path=Path("ca.pem")))),
        (tls(ssl__cafile="ca.pem"), TlsSettings(trust_store=TrustStoreFile(path=Path("ca.pem")))),
        (
            tls(ssl__truststore__location="ca.p12", ssl__truststore__password="x"),
            TlsSettings(trust_store=TrustStoreFile(path=Path("ca.p12"), type=StoreType.PKCS12, password=Password("x"))),
        ),
        (tls(ssl__ca__pem="-----BEGIN"), TlsSettings(trust_store=TrustStoreText(certificates="-----BEGIN"))),
        (
            tls(ssl__keystore__location="me.pem", ssl__key__password="x"),
            TlsSettings(key_store=KeyStoreFile(path=Path("me.pem"), key_password=Password("x"))),
        ),
        (
            tls(ssl__keystore__certificate__chain="chain", ssl__keystore__key="key"),
            TlsSettings(key_store=KeyStoreText(certificate_chain="chain", key=Password("key"))),
        ),
        (tls(ssl__endpoint__identification__algorithm="https"), TlsSettings()),
    ],
)
def test_stores_are_read_by_the_names_of_three_clients(given: dict[str, Any], settings: TlsSettings) -> None:
    assert client_security(given) == ClientSecurity(tls=settings)


def test_certificate_and_key_may_be_in_two_files(tmp_path: Path) -> None:
    (tmp_path / "me.crt").write_text("chain")
    (tmp_path / "me.key").write_text("key")
    given = tls(ssl__certificate__location=str(tmp_path / "me.crt"), ssl__key__location=str(tmp_path / "me.key"))
    store = KeyStoreText(certificate_chain="chain", key=Password("key"))
    assert client_security(given) == ClientSecurity(tls=TlsSettings(key_store=store))
    (tmp_path / "me.key").unlink()
    with pytest.raises(InvalidSetting, match=r"ssl\.key\.location: cannot read .*No such file"):
        client_security(given)


def test_a_token_comes_from_a_file_that_is_read_at_each_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
        "sasl.login.callback.handler.class": f"{OAUTH_PACKAGE}.OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": f"{OAUTH_PACKAGE}.OAuthBearerLoginModule required ;",
    }
    source = client_security(given).sasl
    assert source == TokenSource(file=file)
    with pytest.raises(InvalidSetting, match="cannot read"):
        source.login()
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        assert source.login().token == Password(token)
    file.write_text("\n")
    with pytest.raises(InvalidSetting, match="there is no token"):
        source.login()


class _Provider:
    def token(self) -> str:
        return "of a provider"


def test_a_token_comes_from_a_function_or_a_provider() -> None:
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    for provider, token in ((lambda: "of a function", "of a function"), (_Provider(), "of a provider")):
        source = client_security({**given, "sasl.oauth.token.provider": provider}).sasl
        assert isinstance(source, TokenSource)
        assert source.login().token.text == token
        assert token not in repr(source.login())


def test_a_function_that_fails_is_named() -> None:
    def failing() -> str:
        raise ConnectionError("no such host")

    with pytest.raises(InvalidSetting, match=r"sasl_oauth_token_provider failed: ConnectionError\('no such host'\)"):
        TokenSource(function=failing).login()
    with pytest.raises(InvalidSetting, match="returned bytes, not text"):
        TokenSource(function=lambda: b"token").login()  # type: ignore[arg-type, return-value]  # On purpose.


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS is not one of PLAINTEXT, SSL"),
        ({"sasl.username": "alice"}, "sasl.username has no effect without security.protocol: set it to SASL_PLAINTEXT"),
        ({"ssl.cafile": "ca"}, "ssl.ca.location has no effect without security.protocol: set it to SSL or"),
        ({"security.protocol": "SASL_SSL"}, "needs sasl.mechanism: set it to one of PLAIN, SCRAM-SHA-256"),
        (scram(sasl__mechanism="GSSAPI"), "Kerberos is not supported"),
        (scram(sasl__kerberos__service__name="x"), "Kerberos (GSSAPI) is not supported"),
        (scram(sasl__mechanism="MD5"), "sasl.mechanism=MD5 is not one of"),
        (scram(), "needs a user and a password: set sasl.jaas.config"),
        (scram(sasl__username="alice"), "needs a user and a password"),
        (scram(sasl__usrname="alice"), "sasl.usrname is not supported; did you mean sasl.username?"),
        (scram(sasl__jaas__config=f'{SCRAM_MODULE} required password="{SECRET}"'), "does not end with a semicolon"),
        (
            scram(sasl__jaas__config=f'x.PlainLoginModule required username="a" password="{SECRET}";'),
            "sasl.mechanism=SCRAM-SHA-512 needs ScramLoginModule",
        ),
        (
            scram(sasl__jaas__config=f'{SCRAM_MODULE} required username="a" password="{SECRET}";', sasl__username="a"),
            "say the same: give one of them",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "needs a token"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
            },
            "is not supported yet: fetch the token into a file",
        ),
        (tls(ssl__truststore__location="a", ssl__truststore__type="JKS"), "keytool -importkeystore"),
        (tls(ssl__truststore__location="a", ssl__ca__location="b"), "say the same: give one of them"),
        (tls(ssl__endpoint__identification__algorithm=""), "is always verified"),
        (tls(ssl__check__hostname=False), "is always verified"),
        (tls(enable__ssl__certificate__verification="false"), "the certificate of a broker is always verified"),
        (tls(ssl__enabled__protocols="TLSv1.3"), "gRPC chooses among TLS 1.2 and 1.3"),
        (tls(ssl__keystore__certificate__chain="x"), "needs ssl.keystore.key"),
        ({"security.protocol": "SSL", "ssl.ca.location": "a", "ssl.cafile": "b"}, "are the same setting"),
    ],
)
def test_what_is_wrong_or_missing_is_said_in_one_line_without_secrets(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        client_security(given)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert SECRET not in str(refused.value)


def test_what_a_protocol_does_not_use_is_ignored_as_by_kafkas_clients() -> None:
    assert client_security({"security.protocol": "PLAINTEXT", "ssl.ca.location": "ca.pem"}) == OPEN
