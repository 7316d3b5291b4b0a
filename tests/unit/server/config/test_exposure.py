"""Listeners for clients are closed beyond loopback, unless somebody said otherwise."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations, product
from pathlib import Path
from typing import Final

import pytest

from kraft.sasl.mechanisms import SaslMechanism
from kraft.server.config.conflict import Conflict
from kraft.server.config.exposure import allowed_by_environment, check_passwords, check_strangers, exposure_warnings
from kraft.server.config.listener_security import ListenerSecurity, SaslSettings
from kraft.server.config.loading import ConfigError, load
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import Listener, SecurityProtocol
from kraft.tls.stores import ClientAuth, TlsSettings
from tests.unit.server.config.files import COMBINED, CONTRACT, Load, Refuse, warned_of

OF_THIS_MACHINE: Final = ("localhost", "LOCALHOST", "127.0.0.1", "127.8.8.8", "::1")
BEYOND: Final = ("", "0.0.0.0", "::", "10.0.0.7", "fe80::1", "broker-1.example", "localhost.example")

ALLOWANCES: Final = (("", ""), ("NAME", ""), ("ANOTHER,NAME", ""), ("ANOTHER", ""), ("", "yes"), ("", "no"))
"""Values of allow.unauthenticated.listeners and of ALLOW_PLAINTEXT_LISTENER."""

MECHANISMS: Final = tuple(
    chain.from_iterable(combinations(SaslMechanism, length) for length in range(1, len(SaslMechanism) + 1))
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> NodeConfig:
    file = tmp_path_factory.mktemp("config") / "server.properties"
    file.write_text(CONTRACT)
    return load(file, environment={})


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALLOW_PLAINTEXT_LISTENER", raising=False)


def _node(base: NodeConfig, listener: Listener, security: ListenerSecurity, allowance: tuple[str, str]) -> NodeConfig:
    named, environment = allowance
    names = tuple(named.replace("NAME", listener.name).split(",")) if named else ()
    config = replace(
        base,
        listeners=(listener, *(each for each in base.listeners if each.name != listener.name)),
        listener_security={} if security == ListenerSecurity() else {listener.name: security},
        security=replace(
            base.security, protocols=((listener.name, security.protocol),), unauthenticated_listeners=names
        ),
    )
    return allowed_by_environment(config, {"ALLOW_PLAINTEXT_LISTENER": environment} if environment else {})


def _securities() -> list[tuple[ListenerSecurity, str]]:
    """Return each combination of protocol, mechanisms and client.auth, with what is wrong beyond loopback."""
    found = []
    for protocol, mechanisms, auth in product(SecurityProtocol, MECHANISMS, ClientAuth):
        logs_in, in_clear = protocol.startswith("SASL_"), protocol == "SASL_PLAINTEXT"
        security = ListenerSecurity(
            protocol=protocol,
            tls=TlsSettings(client_auth=auth) if protocol in ("SSL", "SASL_SSL") else None,
            sasl=SaslSettings(mechanisms=mechanisms) if logs_in else None,
        )
        sends_secrets = "PLAIN" in mechanisms or "OAUTHBEARER" in mechanisms
        wrong = "passwords and tokens in clear" if in_clear and sends_secrets else ""
        if protocol == "PLAINTEXT" or (protocol == "SSL" and auth != "required"):
            wrong = "without authentication"
        found.append((security, wrong))
    return found


def _refusals(config: NodeConfig) -> str:
    found = []
    for check in (check_strangers, check_passwords):
        try:
            check(config)
        except Conflict as conflict:
            found.append(f"{conflict.key}: {conflict.reason}")
    return "; ".join(found)


@pytest.mark.parametrize("name", ["PLAINTEXT", "EXTERNAL", "GRPC"])
def test_each_combination_is_open_or_refused(base: NodeConfig, name: str) -> None:
    """Listener x protocol x mechanisms x client.auth x address x allowance."""
    counted = {"starts": 0, "refused": 0}
    for (security, wrong), host, allowance in product(_securities(), (*OF_THIS_MACHINE, *BEYOND), ALLOWANCES):
        config = _node(base, Listener(name, host, 7), security, allowance)
        said = _refusals(config)
        is_allowed = allowance in (("NAME", ""), ("ANOTHER,NAME", ""), ("", "yes"))
        case = (security, host, allowance, said)
        if host in BEYOND and wrong and not is_allowed:
            assert wrong in said, case
            assert f"listener.security.protocol.map={name}:SASL_SSL" in said, case
            assert "set allow.unauthenticated.listeners=" in said, case
            assert "ALLOW_PLAINTEXT_LISTENER=yes" in said, case
            counted["refused"] += 1
        else:
            assert said == "", case
            counted["starts"] += 1
    # Wrong are 45 of PLAINTEXT, 30 of SSL and 36 of SASL_PLAINTEXT, at 7 hosts, without 3 of the allowances.
    assert counted == {"starts": 10_629, "refused": (45 + 30 + 36) * 7 * 3}


def test_a_controllers_listener_is_for_nodes_only_and_not_judged_here(base: NodeConfig) -> None:
    assert _refusals(_node(base, Listener("CONTROLLER", "0.0.0.0", 7), ListenerSecurity(), ("", ""))) == ""


def test_all_open_listeners_are_named_with_one_line_that_allows_them(base: NodeConfig) -> None:
    config = _node(base, Listener("GRPC", "10.0.0.7", 7), ListenerSecurity(), ("ANOTHER", ""))
    kafka = Listener("PLAINTEXT", "", 8)
    config = replace(config, listeners=(kafka, *(each for each in config.listeners if each.name != "PLAINTEXT")))
    said = _refusals(config)
    assert "PLAINTEXT://:8 and GRPC://10.0.0.7:7 are open" in said
    assert "listener.security.protocol.map=PLAINTEXT:SASL_SSL,GRPC:SASL_SSL" in said
    assert "allow.unauthenticated.listeners=ANOTHER,PLAINTEXT,GRPC (" in said


@pytest.mark.parametrize("value", ["yes", "YES", "true", "1"])
def test_the_environment_allows_all_listeners_for_clients(base: NodeConfig, value: str) -> None:
    allowed = allowed_by_environment(base, {"ALLOW_PLAINTEXT_LISTENER": value})
    assert allowed.security.unauthenticated_listeners == ("PLAINTEXT", "GRPC")


@pytest.mark.parametrize("environment", [{}, {"ALLOW_PLAINTEXT_LISTENER": "no"}, {"ALLOW_PLAINTEXT_LISTENER": ""}])
def test_another_environment_allows_nothing(base: NodeConfig, environment: dict[str, str]) -> None:
    assert allowed_by_environment(base, environment) is base


# --- whole files ---

OPEN = {
    "GRPC": "listeners=GRPC://0.0.0.0:9094,CONTROLLER://localhost:9093\nadvertised.listeners=GRPC://here.example:9094\n",
    "PLAINTEXT": "listeners=PLAINTEXT://here.example:9092,GRPC://localhost:9094,CONTROLLER://localhost:9093\n",
}


@pytest.mark.parametrize("name", OPEN)
def test_a_file_with_an_open_listener_is_refused_with_both_remedies(refused: Refuse, name: str) -> None:
    said = refused(COMBINED + OPEN[name])
    assert f"{name}://" in said
    assert "is open to other machines without authentication: let clients log in, with listener.security" in said
    assert f"set allow.unauthenticated.listeners={name} (in a container ALLOW_PLAINTEXT_LISTENER=yes)" in said


@pytest.mark.parametrize("name", OPEN)
def test_a_file_may_allow_an_open_listener_in_either_case(load_text: Load, name: str) -> None:
    config = load_text(f"{COMBINED}{OPEN[name]}allow.unauthenticated.listeners={name.lower()}\n")
    (first, *_) = warned_of(config)
    assert f"{name}://" in first.message
    assert "is open to other machines, and clients are not authenticated" in first.message


@pytest.mark.parametrize("name", OPEN)
def test_a_container_may_allow_open_listeners(tmp_path: Path, name: str) -> None:
    file = tmp_path / "server.properties"
    file.write_text(COMBINED + OPEN[name])
    assert load(file, environment={"ALLOW_PLAINTEXT_LISTENER": "yes"}).warnings
    with pytest.raises(ConfigError, match="without authentication"):
        load(file, environment={})


def test_an_allowance_is_for_clients_only(refused: Refuse) -> None:
    said = refused(COMBINED + "allow.unauthenticated.listeners=GRPC,CONTROLLER\n")
    assert "CONTROLLER is for nodes only, which always authenticate each other: remove it" in said


def test_plain_without_tls_is_warned_of_where_it_is_allowed(base: NodeConfig) -> None:
    security = ListenerSecurity(
        protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=SaslSettings(mechanisms=(SaslMechanism.PLAIN,))
    )
    warning, *_ = exposure_warnings(_node(base, Listener("EXTERNAL", "0.0.0.0", 7), security, ("NAME", "")))
    assert "EXTERNAL://0.0.0.0:7 is open to other machines, and clients send passwords" in warning.message


@pytest.mark.parametrize(("name", "warned"), [("GRPC", True), ("EXTERNAL", False)])
def test_sessions_of_grpc_in_clear_text_are_warned_of(base: NodeConfig, name: str, warned: bool) -> None:
    """Kafka's clients log in once for a connection; those of gRPC show a session with each call."""
    security = ListenerSecurity(
        protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=SaslSettings(mechanisms=(SaslMechanism.SCRAM_SHA_512,))
    )
    config = _node(base, Listener(name, "0.0.0.0", 7), security, ("", ""))
    assert any("show their sessions in clear text" in each.message for each in exposure_warnings(config)) is warned


def test_a_broker_that_only_clients_elsewhere_can_use_is_warned(load_text: Load) -> None:
    config = load_text(COMBINED + OPEN["GRPC"] + "allow.unauthenticated.listeners=GRPC\n")
    _, warning = warned_of(config)
    assert (
        "open to clients on other machines, but brokers there are refused: set cluster.secret.file" in warning.message
    )


SASL_LISTENER = (
    "listeners=SASL_PLAINTEXT://here.example:9092,GRPC://localhost:9094,CONTROLLER://localhost:9093\n"
    "sasl.enabled.mechanisms=PLAIN\n"
)


def test_a_file_with_plain_in_clear_text_is_refused(
    refused: Refuse, load_text: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refused(COMBINED + SASL_LISTENER)
    assert "SASL_PLAINTEXT://here.example:9092 is open to other machines, and PLAIN and OAUTHBEARER send" in said
    assert "listener.security.protocol.map=SASL_PLAINTEXT:SASL_SSL, or" in said
    assert "allow.unauthenticated.listeners=SASL_PLAINTEXT" in said
    allowed = "sasl.enabled.mechanisms=SCRAM-SHA-256\nallow.unauthenticated.listeners=GRPC\n"
    assert warned_of(load_text(COMBINED + SASL_LISTENER + allowed)) == []


@pytest.mark.parametrize(
    ("protocols", "named"),
    [
        (
            "IN:SASL_PLAINTEXT,OUT:PLAINTEXT",
            "OUT://localhost:9092 and GRPC://localhost:9094 are open without a login, although",
        ),
        ("IN:SASL_PLAINTEXT,OUT:SASL_PLAINTEXT", "GRPC://localhost:9094 is open without a login, although"),
        ("IN:SASL_PLAINTEXT,OUT:SASL_PLAINTEXT,GRPC:SASL_PLAINTEXT", None),
        ("IN:PLAINTEXT,OUT:PLAINTEXT", None),
    ],
)
@pytest.mark.parametrize("is_allowed", [False, True])
def test_a_way_around_a_login_is_warned_of(
    load_text: Load, protocols: str, named: str | None, is_allowed: bool
) -> None:
    lines = (
        "listeners=IN://localhost:9091,OUT://localhost:9092,GRPC://localhost:9094,CONTROLLER://localhost:9093\n"
        f"listener.security.protocol.map={protocols}\n"
    )
    if is_allowed:
        lines += "allow.unauthenticated.listeners=OUT,GRPC\n"
    said = [warning.message for warning in warned_of(load_text(COMBINED + lines))]
    if named is None or is_allowed:
        assert said == []
        return
    (message,) = said
    assert message.startswith(named)
    assert "clients have to log in at IN://localhost:9091" in message
    names = "OUT,GRPC" if named.startswith("OUT") else "GRPC"
    assert message.endswith(f"or, if that is meant, set allow.unauthenticated.listeners={names}")


# --- metrics ---


@pytest.mark.parametrize("host", OF_THIS_MACHINE)
def test_metrics_for_this_machine_need_no_allowance(load_text: Load, host: str) -> None:
    in_brackets = f"[{host}]" if ":" in host else host
    assert warned_of(load_text(f"{COMBINED}metrics.address={in_brackets}:9404\n")) == []


@pytest.mark.parametrize("host", BEYOND)
def test_metrics_for_other_machines_are_refused_unless_they_are_allowed(
    refused: Refuse, load_text: Load, host: str
) -> None:
    lines = f"{COMBINED}metrics.address={f'[{host}]' if ':' in host else host}:9404\n"
    said = refused(lines)
    assert "is open to other machines without authentication: listen on localhost, for an agent on this machine" in said
    assert "set allow.unauthenticated.listeners=METRICS (in a container ALLOW_PLAINTEXT_LISTENER=yes)" in said
    (warning,) = warned_of(load_text(f"{lines}allow.unauthenticated.listeners=metrics\n"))
    assert warning.key == "metrics.address"
    assert "anybody who reaches it can read the names of topics and groups" in warning.message


def test_a_container_may_allow_metrics(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"{COMBINED}metrics.address=0.0.0.0:9404\n")
    allowed = load(file, environment={"ALLOW_PLAINTEXT_LISTENER": "yes"}).security.unauthenticated_listeners
    assert allowed == ("GRPC", "METRICS")


def test_another_listener_may_not_have_the_name_of_metrics(refused: Refuse) -> None:
    names = "METRICS://localhost:9092,GRPC://localhost:9094,CONTROLLER://localhost:9093"
    said = refused(
        f"{COMBINED}metrics.address=localhost:9404\nlisteners={names}\nlistener.security.protocol.map=METRICS:PLAINTEXT\n"
    )
    assert "METRICS is the name of metrics.address: give the listener another one" in said
