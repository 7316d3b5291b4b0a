from __future__ import annotations

import pytest

from kraft.console.config import ConsoleConfig, InvalidConsoleFile, console_config

OPEN = {"clusters": "dev", "cluster.dev.bootstrap.servers": "localhost:9094"}
CLOSED = {
    "clusters": "prod",
    "cluster.prod.bootstrap.servers": "b1:9092,b2:9092",
    "cluster.prod.wire.protocol": "kafka",
    "cluster.prod.security.protocol": "SASL_PLAINTEXT",
    "cluster.prod.sasl.mechanism": "SCRAM-SHA-512",
}


def problems(given: dict[str, str]) -> list[str]:
    with pytest.raises(InvalidConsoleFile) as error:
        console_config(given)
    return error.value.problems


def test_an_open_cluster_on_loopback_needs_no_more_than_its_address() -> None:
    config = console_config(OPEN)
    assert (config.host, config.port, config.tls) == ("localhost", 8080, None)
    assert not config.clusters["dev"].needs_login
    assert "localhost:8080" in config.allowed_hosts
    assert "evil.example:8080" not in config.allowed_hosts


def test_who_logs_in_gives_the_credentials() -> None:
    cluster = console_config(CLOSED).clusters["prod"]
    assert cluster.needs_login
    assert cluster.settings("alice", "secret") == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "secret",
        "wire.protocol": "kafka",
    }


def test_everything_that_is_wrong_is_told_at_once() -> None:
    found = problems(
        {
            "clusters": "a,B!",
            "listeners": "HTTP://0.0.0.0:8080",
            "colour": "red",
            "cluster.a.sasl.password": "secret",
            "cluster.a.timeout": "1",
            "cluster.z.bootstrap.servers": "z:1",
            "session.idle.timeout.ms": "soon",
        }
    )
    begins = [
        "listeners=HTTP://0.0.0.0:8080 would send passwords in the clear",
        "cluster.a.sasl.password: the console keeps no login",
        "cluster.a.timeout is not known",
        "cluster.a.bootstrap.servers is missing",
        "clusters=B! is no name",
        "colour is not known",
        "cluster.z.bootstrap.servers: cluster z is not in clusters",
        "session.idle.timeout.ms=soon is no time",
    ]
    assert len(found) == len(begins)
    assert all(each.startswith(begin) for each, begin in zip(found, begins, strict=True))
    assert "hidden" not in " ".join(found)


@pytest.mark.parametrize(
    ("changes", "begin"),
    [
        ({"clusters": ""}, "clusters names no cluster"),
        ({"clusters": "prod,prod"}, "clusters names prod 2 times"),
        ({"listeners": "localhost:8080"}, "listeners=localhost:8080 is not HTTP://HOST:PORT"),
        ({"listeners": "HTTP://localhost:x"}, "listeners=HTTP://localhost:x is not HTTP://HOST:PORT"),
        ({"listeners": "HTTPS://console.example:443"}, "listeners has HTTPS, which needs a key"),
        ({"cluster.prod.sasl.mechanism": "GSSAPI"}, "cluster.prod.sasl.mechanism is missing or not supported"),
        ({"cluster.prod.wire.protocol": "http"}, "cluster.prod.wire.protocol=http is not one of grpc, kafka"),
        ({"cluster.prod.bootstrap.servers": "a b"}, "cluster.prod."),
        ({"cluster.prod.security.protocol": "NONE"}, "cluster.prod.security.protocol=NONE is not one of"),
    ],
)
def test_a_bad_value_is_one_line(changes: dict[str, str], begin: str) -> None:
    assert problems({**CLOSED, **changes})[0].startswith(begin)


def test_an_open_cluster_is_not_shown_to_other_machines() -> None:
    found = problems({**OPEN, "listeners": "HTTPS://console.example:443", "ssl.keystore.location": "/missing.p12"})
    assert any(each.startswith("cluster.dev: nobody has to log in there") for each in found)


@pytest.mark.parametrize(
    "changed",
    [
        {"allowed.hosts": "localhost, console.example"},
        {"allowed.hosts": "console.example:8443"},
        {"advertised.listeners": "https://console.example"},
    ],
)
def test_an_open_cluster_is_not_shown_by_a_proxy(changed: dict[str, str]) -> None:
    (found,) = problems(OPEN | changed)
    assert found.startswith("cluster.dev: nobody has to log in there")
    assert console_config(OPEN | {"allowed.hosts": "[::1], 127.0.0.1:9"}).clusters


def test_names_behind_a_proxy_are_allowed_by_the_file() -> None:
    config: ConsoleConfig = console_config({**CLOSED, "allowed.hosts": "Console.example"})
    assert {"console.example", "console.example:8080"} <= config.allowed_hosts


TOKENS = CLOSED | {
    "cluster.prod.sasl.mechanism": "OAUTHBEARER",
    "cluster.prod.oidc.issuer": "https://idp.example",
    "cluster.prod.oidc.client.id": "console",
}


def test_with_oidc_a_function_gives_the_token() -> None:
    cluster = console_config(TOKENS).clusters["prod"]
    assert cluster.oidc is not None
    assert cluster.needs_login

    def token() -> str:
        return "token"

    settings = cluster.settings("alice", token)
    assert settings["sasl.oauth.token.provider"] is token
    assert not any(key in settings for key in ("sasl.username", "sasl.password", "oidc.issuer"))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"cluster.prod.sasl.mechanism": "SCRAM-SHA-512"}, "sasl.mechanism=OAUTHBEARER: set both"),
        ({"cluster.prod.security.protocol": "SSL"}, "sasl.mechanism=OAUTHBEARER: set both"),
        ({"cluster.prod.oidc.client.id": ""}, "cluster.prod.oidc.client.id is missing"),
        ({"cluster.prod.oidc.issuer": "http://idp.example"}, "is no URL of a provider"),
        ({"cluster.prod.oidc.colour": "red"}, "cluster.prod.oidc.colour is not known"),
    ],
)
def test_keys_of_oidc_that_do_not_fit_are_told(changed: dict[str, str], said: str) -> None:
    (found,) = problems(TOKENS | changed)
    assert said in found


def test_tokens_need_a_provider() -> None:
    (found,) = problems(CLOSED | {"cluster.prod.sasl.mechanism": "OAUTHBEARER"})
    assert found == (
        "cluster.prod.sasl.mechanism=OAUTHBEARER needs cluster.prod.oidc.issuer and cluster.prod.oidc.client.id"
    )


def test_behind_a_proxy_browsers_show_its_address() -> None:
    given = CLOSED | {
        "advertised.listeners": "HTTPS://Console.Example:443/",
        "trusted.proxies": "127.0.0.1, 10.0.0.0/8",
    }
    config = console_config(given)
    assert (config.origin, config.public_origin) == ("http://localhost:8080", "https://console.example")
    assert config.is_secure
    assert "console.example" in config.allowed_hosts
    assert "https://console.example" in config.origins
    assert "http://console.example" not in config.origins
    assert "http://localhost:8080" in config.origins
    assert [str(each) for each in config.trusted_proxies] == ["127.0.0.1/32", "10.0.0.0/8"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"advertised.listeners": "console.example"}, "advertised.listeners=console.example is not HTTPS://HOST"),
        ({"advertised.listeners": "HTTP://console.example"}, "would send passwords in the clear"),
        ({"advertised.listeners": "HTTPS://console.example/below"}, "is not HTTPS://HOST"),
        ({"advertised.listeners": "HTTPS://console.example:x"}, "is not HTTPS://HOST"),
        ({"trusted.proxies": "proxy.example"}, "trusted.proxies=proxy.example is no address"),
    ],
)
def test_what_is_wrong_with_a_proxy_is_told(changed: dict[str, str], said: str) -> None:
    (found,) = problems(CLOSED | changed)
    assert said in found


def test_a_cluster_without_logins_is_not_shown_through_a_proxy() -> None:
    (found,) = problems(OPEN | {"advertised.listeners": "HTTPS://console.example"})
    assert "nobody has to log in there, and others than this machine reach the console" in found
