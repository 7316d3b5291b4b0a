"""What listeners cannot do yet is refused at the start."""

from __future__ import annotations

import pytest

from kraft.model.password import Password
from kraft.sasl.mechanisms import SaslMechanism
from kraft.server.config import served
from kraft.server.config.listener_security import ListenerSecurity, SaslSettings
from kraft.server.config.served import Layer, ListenerKind, not_served
from kraft.server.config.values import SecurityProtocol

PROTOCOLS = [
    (SecurityProtocol.PLAINTEXT, ()),
    (SecurityProtocol.SSL, (Layer.TLS,)),
    (SecurityProtocol.SASL_PLAINTEXT, (Layer.SASL,)),
    (SecurityProtocol.SASL_SSL, (Layer.TLS, Layer.SASL)),
]


@pytest.mark.parametrize(("name", "kind"), [("GRPC", ListenerKind.GRPC), ("EXTERNAL", ListenerKind.KAFKA)])
@pytest.mark.parametrize(("protocol", "layers"), PROTOCOLS)
@pytest.mark.parametrize("lacking", [(kind, layer) for kind in ListenerKind for layer in Layer])
def test_a_protocol_is_refused_if_its_listener_lacks_one_of_its_layers(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    kind: ListenerKind,
    protocol: SecurityProtocol,
    layers: tuple[Layer, ...],
    lacking: tuple[ListenerKind, Layer],
) -> None:
    monkeypatch.setattr(served, "LAYERS_NOT_SERVED_YET", frozenset({lacking}))
    reason = not_served(name, ListenerSecurity(protocol=protocol))
    if lacking in [(kind, layer) for layer in layers]:
        assert reason == f"{lacking[1]} on {kind} is not supported yet: map {name} to PLAINTEXT"
    else:
        assert reason is None


def test_a_mechanism_is_refused_until_it_is_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "LAYERS_NOT_SERVED_YET", frozenset())
    monkeypatch.setattr(served, "MECHANISMS_NOT_SERVED_YET", frozenset({SaslMechanism.OAUTHBEARER}))
    sasl = SaslSettings(mechanisms=(SaslMechanism.PLAIN, SaslMechanism.OAUTHBEARER))
    security = ListenerSecurity(protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=sasl)
    assert not_served("IN", security) == "OAUTHBEARER is not supported yet: remove it from sasl.enabled.mechanisms"


def test_users_of_files_are_refused_until_they_can_log_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "LAYERS_NOT_SERVED_YET", frozenset())
    monkeypatch.setattr(served, "ARE_USERS_OF_FILES_IMPORTED", False)
    sasl = SaslSettings(mechanisms=(SaslMechanism.PLAIN,), plain_users=(("alice", Password("hunter2")),))
    reason = not_served("IN", ListenerSecurity(protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=sasl))
    assert reason is not None
    assert "create them with kraft users" in reason
    assert "hunter2" not in reason
