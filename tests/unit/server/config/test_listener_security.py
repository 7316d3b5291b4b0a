"""What the keys of TLS and SASL make of a listener, and what contradicts itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.model.password import Password
from kraft.sasl.mechanisms import SaslMechanism
from kraft.server.config.listener_security import OPEN, ListenerSecurity
from kraft.server.config.loading import ConfigError
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import SecurityProtocol
from kraft.tls.stores import (
    ClientAuth,
    KeyStoreFile,
    KeyStoreText,
    StoreType,
    TlsVersion,
    TrustStoreFile,
    TrustStoreText,
)
from tests.unit.server.config.files import COMBINED, Load, Refuse, warned_of

SECRET = "hunter2"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
KEYSTORE = "ssl.keystore.location=/own.pem\n"
OAUTHBEARER = "sasl.enabled.mechanisms=OAUTHBEARER\n"
JWKS = "sasl.oauthbearer.jwks.endpoint.url=https://auth.example/keys\n"
ISSUER = "sasl.oauthbearer.expected.issuer=https://auth.example\n"
USERS_AT = f"listener.name.{{}}.plain.sasl.jaas.config={PLAIN} required user_a={{}} user_b=b;\n"
AUDIENCE = "sasl.oauthbearer.expected.audience=kraft\n"


def text(protocol: str, lines: str, name: str = "OUT") -> str:
    listeners = f"listeners={name}://localhost:9092,GRPC://localhost:9094,CONTROLLER://localhost:9093\n"
    return f"{COMBINED}{listeners}listener.security.protocol.map={name}:{protocol}\n{lines}"


def required(config: NodeConfig, name: str = "OUT") -> ListenerSecurity:
    return config.security_of(name)


@pytest.mark.parametrize("name", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
def test_a_listener_with_a_protocols_name_has_that_protocol(load_text: Load, name: str) -> None:
    listeners = f"listeners={name}://localhost:9092,GRPC://localhost:9094,CONTROLLER://localhost:9093\n"
    config = load_text(COMBINED + listeners + (KEYSTORE if name.endswith("SSL") else ""))
    security = config.security_of(name)
    assert security.protocol is SecurityProtocol(name)
    assert (security.tls is not None, security.sasl is not None) == (name.endswith("SSL"), name.startswith("SASL"))


def test_a_listener_without_settings_is_open(load_text: Load) -> None:
    config = load_text(COMBINED)
    assert config.security_of("GRPC") is config.security_of("CONTROLLER") is OPEN


def test_controllers_with_tls_show_certificates(load_text: Load) -> None:
    config = load_text(
        COMBINED + "listener.security.protocol.map=CONTROLLER:SSL\n" + KEYSTORE + "ssl.truststore.location=/ca.pem\n"
    )
    tls = config.security_of("CONTROLLER").tls
    assert tls is not None
    assert (tls.key_store, tls.trust_store) == (
        KeyStoreFile(path=Path("/own.pem")),
        TrustStoreFile(path=Path("/ca.pem")),
    )
    assert tls.client_auth is ClientAuth.REQUIRED


def test_a_broker_that_is_no_controller_has_the_stores_for_calls_of_controllers(load_text: Load) -> None:
    config = load_text(
        COMBINED.replace("process.roles=broker,controller", "process.roles=broker").replace("node.id=1", "node.id=4")
        + "listeners=GRPC://localhost:9094\nlistener.security.protocol.map=CONTROLLER:SSL\n"
        + KEYSTORE
        + "ssl.truststore.location=/ca.pem\n"
    )
    assert config.security_of("CONTROLLER").tls is not None


def test_every_setting_of_tls_is_taken(load_text: Load) -> None:
    tls = required(
        load_text(
            text(
                "SSL",
                f"ssl.keystore.location=/own.p12\nssl.keystore.password={SECRET}\nssl.truststore.type=pkcs12\n"
                f"ssl.truststore.location=/ca.p12\nssl.truststore.password={SECRET}\nssl.client.auth=requested\n"
                "ssl.enabled.protocols=TLSv1.3\n"
                "ssl.cipher.suites=ECDHE-RSA-AES128-GCM-SHA256, ECDHE-ECDSA-AES128-GCM-SHA256\n"
                "ssl.principal.mapping.rules=RULE:^CN=(.*?),.*$/$1/,DEFAULT\nssl.protocol=TLSv1.3\n",
            )
        )
    ).tls
    assert tls is not None
    assert tls.key_store == KeyStoreFile(path=Path("/own.p12"), type=StoreType.PKCS12, password=Password(SECRET))
    assert tls.trust_store == TrustStoreFile(path=Path("/ca.p12"), type=StoreType.PKCS12, password=Password(SECRET))
    assert (tls.client_auth, tls.protocols) == (ClientAuth.REQUESTED, (TlsVersion.TLS_1_3,))
    assert tls.cipher_suites == ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256")
    assert tls.principal_mapping_rules == "RULE:^CN=(.*?),.*$/$1/,DEFAULT"


def test_keys_and_certificates_may_be_in_the_file_itself(load_text: Load) -> None:
    tls = required(
        load_text(
            text(
                "SSL",
                "ssl.keystore.certificate.chain=-----BEGIN CERTIFICATE-----\\nA\\n-----END CERTIFICATE-----\n"
                f"ssl.keystore.key={SECRET}\nssl.key.password={SECRET}\nssl.truststore.certificates=B\n",
            )
        )
    ).tls
    assert tls is not None
    assert tls.key_store == KeyStoreText(
        certificate_chain="-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----",
        key=Password(SECRET),
        key_password=Password(SECRET),
    )
    assert tls.trust_store == TrustStoreText(certificates="B")


def test_both_scram_mechanisms_are_enabled_unless_a_file_says_otherwise(load_text: Load) -> None:
    sasl = required(load_text(text("SASL_PLAINTEXT", ""))).sasl
    assert sasl is not None
    assert sasl.mechanisms == (SaslMechanism.SCRAM_SHA_512, SaslMechanism.SCRAM_SHA_256)
    assert (sasl.reauthentication_ms_max, sasl.receive_bytes_max, sasl.plain_users) == (0, 524_288, ())
    assert sasl.oauth_bearer is None


def test_every_setting_of_sasl_is_taken(load_text: Load) -> None:
    sasl = required(
        load_text(
            text(
                "SASL_PLAINTEXT",
                "sasl.enabled.mechanisms=PLAIN, SCRAM-SHA-256,OAUTHBEARER\nconnections.max.reauth.ms=3600000\n"
                "sasl.server.max.receive.size=65536\nsasl.oauthbearer.expected.audience=orders,billing\n"
                "sasl.oauthbearer.expected.issuer=https://auth.example\nsasl.oauthbearer.clock.skew.seconds=5\n"
                "sasl.oauthbearer.scope.claim.name=scp\nsasl.oauthbearer.sub.claim.name=client_id\n"
                f"listener.name.out.oauthbearer.sasl.jaas.config={OAUTH} required;\n"
                f"listener.name.out.oauthbearer.sasl.server.callback.handler.class={VALIDATOR}\n" + JWKS,
            )
        )
    ).sasl
    assert sasl is not None
    assert sasl.mechanisms == (SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256, SaslMechanism.OAUTHBEARER)
    assert (sasl.reauthentication_ms_max, sasl.receive_bytes_max) == (3_600_000, 65_536)
    oauth = sasl.oauth_bearer
    assert oauth is not None
    assert (oauth.jwks_url, oauth.expected_issuer) == ("https://auth.example/keys", "https://auth.example")
    assert oauth.expected_audiences == ("orders", "billing")
    assert (oauth.clock_skew_s, oauth.scope_claim, oauth.subject_claim) == (5, "scp", "client_id")


def test_users_that_the_file_names_are_read(load_text: Load) -> None:
    jaas = f'{PLAIN} required username="admin" password="{SECRET}" user_admin="{SECRET}" user_alice="a\\\\"b";'
    config = load_text(
        text("SASL_PLAINTEXT", f"sasl.enabled.mechanisms=PLAIN\nlistener.name.out.plain.sasl.jaas.config={jaas}\n")
    )
    sasl = required(config).sasl
    assert sasl is not None
    assert sasl.plain_users == (("admin", Password(SECRET)), ("alice", Password('a"b')))
    assert SECRET not in repr(config)


# --- one listener ---

TWO = (
    "listeners=IN://localhost:9092,OUT://localhost:9192,GRPC://localhost:9094,CONTROLLER://localhost:9093\n"
    "listener.security.protocol.map=IN:SASL_SSL,OUT:SASL_SSL\n"
)


def test_a_setting_of_one_listener_takes_the_place_of_that_for_all(load_text: Load) -> None:
    config = load_text(
        COMBINED
        + TWO
        + KEYSTORE
        + "listener.name.out.ssl.keystore.location=/out.p12\nlistener.name.out.ssl.keystore.type=PKCS12\n"
        + f"listener.name.out.ssl.keystore.password={SECRET}\nlistener.name.out.sasl.enabled.mechanisms=PLAIN\n"
        + "listener.name.out.max.connection.creation.rate=7\n"
    )
    inside, outside = config.security_of("IN"), config.security_of("OUT")
    assert inside.tls is not None
    assert outside.tls is not None
    assert inside.tls.key_store == KeyStoreFile(path=Path("/own.pem"))
    assert outside.tls.key_store == KeyStoreFile(
        path=Path("/out.p12"), type=StoreType.PKCS12, password=Password(SECRET)
    )
    assert inside.sasl is not None
    assert outside.sasl is not None
    assert SaslMechanism.PLAIN not in inside.sasl.mechanisms
    assert outside.sasl.mechanisms == (SaslMechanism.PLAIN,)
    assert config.connections.creation_rates_of_listeners == (("OUT", 7),)
    assert SECRET not in repr(config)


# --- refusals ---

CONTRADICTIONS = [
    ("SSL", "", "OUT:SSL needs the node's private key and its certificates: set ssl.keystore.location"),
    ("SSL", KEYSTORE + "ssl.keystore.type=JKS\n", "keytool -importkeystore -srckeystore STORE.jks -destkeystore"),
    ("SSL", KEYSTORE + "ssl.keystore.type=BCFKS\n", "ssl.keystore.type=BCFKS: expected PEM or PKCS12"),
    ("SSL", KEYSTORE + f"ssl.keystore.type=PEM\nssl.keystore.password={SECRET}\n", "a PEM file has no password"),
    ("SSL", KEYSTORE + f"ssl.keystore.key={SECRET}\n", "is set beside ssl.keystore.key"),
    ("SSL", f"ssl.keystore.key={SECRET}\n", "is set without ssl.keystore.certificate.chain: set both"),
    ("SSL", f"ssl.keystore.certificate.chain={SECRET}\n", "is set without ssl.keystore.key: set both"),
    (
        "SSL",
        f"ssl.keystore.certificate.chain=A\nssl.keystore.key={SECRET}\nssl.keystore.type=PKCS12\n",
        "text in the configuration file is PEM",
    ),
    (
        "SSL",
        KEYSTORE + f"ssl.keystore.password={SECRET}\nssl.key.password=other{SECRET}\n",
        "ssl.key.password: a PKCS12 file has one password: remove the line",
    ),
    (
        "SSL",
        KEYSTORE + f"ssl.truststore.location=/ca.pem\nssl.truststore.certificates={SECRET}\n",
        "is set beside ssl.truststore.certificates: remove one",
    ),
    ("SSL", KEYSTORE + "ssl.client.auth=required\n", "OUT needs the CAs of its clients: set ssl.truststore.location"),
    ("SSL", KEYSTORE + "ssl.client.auth=want\n", "expected none or requested or required"),
    ("SSL", KEYSTORE + "ssl.enabled.protocols=TLSv1.1,TLSv1.2\n", "TLSv1.1 is not secure and never offered"),
    ("SSL", KEYSTORE + "ssl.enabled.protocols=TLSv1.4\n", "expected TLSv1.2 or TLSv1.3, or both"),
    (
        "SSL",
        KEYSTORE + "ssl.principal.mapping.rules=RULE:CN=(.*/$1/\n",
        "ssl.principal.mapping.rules=RULE:CN=(.*/$1/: ",
    ),
    ("SSL", KEYSTORE + "ssl.principal.mapping.rules=CN\n", "ssl.principal.mapping.rules=CN: "),
    (
        "SSL",
        KEYSTORE + "ssl.cipher.suites=TLS_AES_128_GCM_SHA256\n",
        "the suites of TLS 1.3 can only be enabled together: add",
    ),
    ("SASL_PLAINTEXT", "sasl.enabled.mechanisms=GSSAPI\n", "Kerberos (GSSAPI) is not supported: expected one or more"),
    ("SASL_PLAINTEXT", "sasl.enabled.mechanisms=SCRAM-SHA-1\n", "expected one or more of PLAIN, SCRAM-SHA-256, SCRAM"),
    ("SASL_PLAINTEXT", "sasl.enabled.mechanisms=\n", "expected one or more of PLAIN"),
    (
        "SASL_PLAINTEXT",
        OAUTHBEARER,
        "set sasl.oauthbearer.jwks.endpoint.url, sasl.oauthbearer.expected.issuer, sasl.oauthbearer.expected.audience",
    ),
    ("SASL_PLAINTEXT", OAUTHBEARER + JWKS + AUDIENCE, "the issuer that tokens name: set sasl.oauthbearer.expected.iss"),
    ("SASL_PLAINTEXT", OAUTHBEARER + JWKS + ISSUER, "audience that tokens are for: set sasl.oauthbearer.expected.aud"),
    ("SASL_PLAINTEXT", OAUTHBEARER + AUDIENCE + ISSUER, "server's keys: set sasl.oauthbearer.jwks.endpoint.url"),
    ("SASL_PLAINTEXT", OAUTHBEARER + JWKS.replace("auth.", "me:pw@auth."), "expected https://HOST/PATH, or file"),
    ("SASL_PLAINTEXT", OAUTHBEARER + JWKS.replace("https", "http"), "expected https://HOST/PATH, or file:///PATH"),
    ("SASL_PLAINTEXT", OAUTHBEARER + JWKS.replace("auth.example", "[bad"), "expected https://HOST/PATH, or file"),
    ("SASL_PLAINTEXT", "sasl.server.max.receive.size=524289\n", "expected a whole number from 1024 to 524288"),
    (
        "SASL_PLAINTEXT",
        f"listener.name.out.plain.sasl.jaas.config={PLAIN} required user_alice={SECRET};\n",
        "listener.name.out.plain.sasl.jaas.config: has no effect: add PLAIN to sasl.enabled.mechanisms",
    ),
    (
        "SASL_PLAINTEXT",
        f"sasl.enabled.mechanisms=PLAIN\nlistener.name.out.plain.sasl.jaas.config={PLAIN} required user_a={SECRET}\n",
        "listener.name.out.plain.sasl.jaas.config: the login module does not end with a semicolon",
    ),
    (
        "SASL_PLAINTEXT",
        f"sasl.enabled.mechanisms=PLAIN\nlistener.name.out.plain.sasl.jaas.config={PLAIN} required user_={SECRET};\n",
        "a user has no name or no password",
    ),
    (
        "SASL_PLAINTEXT",
        f"listener.name.out.plain.sasl.jaas.config={SCRAM} required user_a={SECRET};\n",
        "expected PlainLoginModule as the login module",
    ),
    (
        "SASL_PLAINTEXT",
        OAUTHBEARER
        + JWKS
        + ISSUER
        + AUDIENCE
        + f"listener.name.out.oauthbearer.sasl.jaas.config={OAUTH} required unsecuredLoginStringClaim_sub={SECRET};\n",
        "tokens without a signature are never accepted",
    ),
    (
        "SASL_PLAINTEXT,GRPC:SASL_PLAINTEXT",
        f"{USERS_AT.format('out', SECRET)}{USERS_AT.format('grpc', 'other')}sasl.enabled.mechanisms=PLAIN\n",
        "listener.name.grpc.plain.sasl.jaas.config: a has another password at another listener",
    ),
    ("KERBEROS", "", "KERBEROS is not a security protocol: expected PLAINTEXT or SSL or SASL_PLAINTEXT or SASL_SSL"),
    ("PLAINTEXT,OUT:SSL", "", "OUT is named twice: map each listener once"),
    # Settings that no listener uses.
    ("PLAINTEXT", KEYSTORE, "has no effect: no listener uses TLS: map one to SSL or SASL_SSL in listener.security"),
    ("PLAINTEXT", f"ssl.keystore.password={SECRET}\n", "ssl.keystore.password: has no effect: no listener uses TLS"),
    ("PLAINTEXT", "ssl.client.auth=required\n", "has no effect: no listener uses TLS"),
    ("PLAINTEXT", "sasl.enabled.mechanisms=PLAIN\n", "has no effect: no listener uses SASL: map one to SASL_SSL or"),
    (
        "PLAINTEXT",
        "listener.name.out.ssl.client.auth=required\n",
        "has no effect: the listener does not use TLS: map OUT to SSL or SASL_SSL",
    ),
    (
        "SSL",
        KEYSTORE + f"listener.name.out.plain.sasl.jaas.config={PLAIN} required user_a={SECRET};\n",
        "has no effect: the listener does not use SASL: map OUT to SASL_SSL or SASL_PLAINTEXT",
    ),
    # Names of listeners.
    ("SSL", KEYSTORE + "listener.name.uot.ssl.client.auth=required\n", "there is no listener UOT: correct the name"),
    ("SSL", KEYSTORE + "listener.name.OUT.ssl.client.auth=required\n", "lower case: listener.name.out.ssl.client.auth"),
    ("SSL", KEYSTORE + "listener.name.out=required\n", "expected listener.name.NAME.KEY"),
    ("SSL", KEYSTORE + "listener.name.out.ssl.client.auth=want\n", "listener.name.out.ssl.client.auth=want: expected"),
    ("SSL", KEYSTORE + "listener.name.out.num.network.threads=3\n", "not supported yet for one listener"),
    (
        "SASL_PLAINTEXT",
        "listener.name.out.scram-sha-256.connections.max.reauth.ms=3\n",
        "not supported yet for one mechanism: write listener.name.out.connections.max.reauth.ms",
    ),
    ("SASL_PLAINTEXT", f"listener.name.out.sasl.jaas.config={SECRET}\n", "write listener.name.out.plain.sasl.jaas"),
    ("SASL_PLAINTEXT", f"plain.sasl.jaas.config={SECRET}\n", "write listener.name.NAME.plain.sasl.jaas.config"),
    ("SASL_PLAINTEXT", f"listener.name.out.gssapi.sasl.jaas.config={SECRET}\n", "Kerberos (GSSAPI) is not supported"),
    (
        "SASL_PLAINTEXT",
        "listener.name.out.plain.sasl.server.callback.handler.class=com.example.LdapHandler\n",
        "plain.sasl.server.callback.handler.class: not supported yet",
    ),
    ("SASL_PLAINTEXT", "sasl.kerberos.service.name=kafka\n", "sasl.kerberos.service.name: Kerberos is not supported"),
    ("SASL_PLAINTEXT", f"delegation.token.secret.key={SECRET}\n", "delegation tokens are not supported"),
    # What brokers send each other.
    (
        "SSL",
        KEYSTORE + "security.inter.broker.protocol=SSL\n",
        "brokers also call each other at GRPC://localhost:9094, without TLS: map GRPC to SSL or SASL_SSL",
    ),
]


@pytest.mark.parametrize(("protocol", "lines", "expected"), CONTRADICTIONS)
def test_a_contradiction_is_refused_without_a_secret(refused: Refuse, protocol: str, lines: str, expected: str) -> None:
    said = refused(text(protocol, lines))
    assert expected in said
    assert SECRET not in said


def test_grpc_cannot_only_request_certificates(refused: Refuse) -> None:
    said = refused(
        COMBINED
        + "listener.security.protocol.map=GRPC:SSL\nssl.truststore.location=/ca.pem\nssl.client.auth=requested\n"
        + KEYSTORE
    )
    assert "set listener.name.grpc.ssl.client.auth to required or none" in said


def test_brokers_may_need_tls_where_it_is(load_text: Load) -> None:
    lines = KEYSTORE + "security.inter.broker.protocol=SASL_SSL\nlistener.security.protocol.map=OUT:SSL,GRPC:SSL\n"
    assert load_text(text("SSL", lines)).security_of("GRPC").protocol is SecurityProtocol.SSL


def test_every_problem_of_several_listeners_is_named_once(load_text: Load) -> None:
    with pytest.raises(ConfigError) as raised:
        load_text(COMBINED + TWO + "listener.name.in.ssl.keystore.type=PEM\n")
    assert [line.rpartition(": ")[0].rpartition(": ")[2] for line in str(raised.value).splitlines()[1:]] == [
        f"{name}:SASL_SSL needs the node's private key and its certificates" for name in ("IN", "OUT")
    ]


# --- warnings ---


@pytest.mark.parametrize(
    ("lines", "key", "expected"),
    [
        (
            f"listener.name.out.scram-sha-512.sasl.jaas.config={SCRAM} required username=a password={SECRET};\n",
            "listener.name.out.scram-sha-512.sasl.jaas.config",
            "has no effect: nodes authenticate each other",
        ),
        ("sasl.mechanism.inter.broker.protocol=PLAIN\n", "sasl.mechanism.inter.broker.protocol", "see cluster.secret"),
        ("ssl.keymanager.algorithm=SunX509\n", "ssl.keymanager.algorithm", "it is a setting of Java"),
        (
            "listener.name.grpc.max.connection.creation.rate=9\n",
            "listener.name.grpc.max.connection.creation.rate",
            "has no effect: it is for listeners of Kafka's protocol",
        ),
    ],
)
def test_what_has_no_effect_is_warned_of(load_text: Load, lines: str, key: str, expected: str) -> None:
    (warning,) = warned_of(load_text(text("SASL_PLAINTEXT", "allow.unauthenticated.listeners=GRPC\n" + lines)))
    assert warning.key == key
    assert expected in warning.message
    assert SECRET not in warning.message


def test_brokers_always_authenticate_each_other(load_text: Load) -> None:
    lines = "security.inter.broker.protocol=SASL_PLAINTEXT\nallow.unauthenticated.listeners=GRPC\n"
    config = load_text(text("SASL_PLAINTEXT", lines))
    assert warned_of(config) == []


def test_the_files_settings_are_kept_without_secrets(load_text: Load) -> None:
    config = load_text(
        text(
            "SASL_SSL",
            f"ssl.keystore.location=/own.p12\nssl.keystore.password={SECRET}\nsasl.enabled.mechanisms=PLAIN\n"
            f"listener.name.out.plain.sasl.jaas.config={PLAIN} required user_a={SECRET};\n"
            f"listener.name.out.ssl.key.password={SECRET}\n",
        )
    )
    assert config.settings["ssl.keystore.password"] == "[hidden]"
    assert config.settings["listener.name.out.ssl.key.password"] == "[hidden]"
    assert config.settings["listener.name.out.plain.sasl.jaas.config"] == "[hidden]"
    assert config.settings["ssl.keystore.location"] == "/own.p12"
    assert SECRET not in repr(config)


# --- connections ---


def test_limits_of_connections_are_read(load_text: Load) -> None:
    connections = load_text(
        COMBINED + "max.connections.per.ip=9\nmax.connections.per.ip.overrides=here.example:3, 127.0.0.1:200,[::1]:5\n"
        "max.connection.creation.rate=50\nconnection.failed.authentication.delay.ms=250\n"
    ).connections
    assert connections.per_host_max == 9
    assert connections.per_host_overrides == (("here.example", 3), ("127.0.0.1", 200), ("::1", 5))
    assert (connections.creation_rate_max, connections.failed_login_delay_ms) == (50, 250)


@pytest.mark.parametrize("value", ["here", "here:", ":3", "a:1,a:2", "a:-1", "a b:1"])
def test_malformed_limits_of_hosts_are_refused(refused: Refuse, value: str) -> None:
    assert f"max.connections.per.ip.overrides={value}: " in refused(
        f"{COMBINED}max.connections.per.ip.overrides={value}\n"
    )
