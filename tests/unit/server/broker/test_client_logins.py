from __future__ import annotations

from pathlib import Path

from kraft.model.errors import ErrorCode
from kraft.model.principal import ANONYMOUS, Principal
from kraft.rpc.on_behalf import Client
from kraft.sasl.login import LoginFailed, Session
from kraft.sasl.mechanisms import SaslMechanism
from kraft.server.access.audit import AuditEvent, login_event
from kraft.server.broker.client_logins import login_noted
from tests.support.server.broker_nodes import broker


def test_the_audit_has_logins_with_their_listener_and_failed_ones_with_nobodys_name() -> None:
    events: list[AuditEvent] = []
    note = login_noted(lambda event, _: events.append(event), "SASL")
    note("10.0.0.7", Session(principal=Principal("alice"), mechanism=SaslMechanism.PLAIN))
    note("10.0.0.7", LoginFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, "wrong password of 'bob'", "told"))
    assert events == [
        login_event(Client(Principal("alice"), "10.0.0.7"), "SASL", ErrorCode.NONE, "PLAIN"),
        login_event(
            Client(ANONYMOUS, "10.0.0.7"), "SASL", ErrorCode.SASL_AUTHENTICATION_FAILED, "wrong password of 'bob'"
        ),
    ]


def test_logins_are_counted_by_listener_and_by_the_error_that_the_client_got(tmp_path: Path) -> None:
    logins = broker(tmp_path, "fsync", stopped_cleanly=True).apis.logins
    session = Session(principal=Principal("alice"), mechanism=SaslMechanism.PLAIN)
    failed = LoginFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, "wrong password of 'bob'", "told")
    for listener, outcome in (("SASL", session), ("SASL", failed), ("SASL", failed), ("GRPC", session)):
        logins.noted_at(listener)("10.0.0.7", outcome)
    assert logins.counts == {("SASL", "NONE"): 1, ("SASL", "SASL_AUTHENTICATION_FAILED"): 2, ("GRPC", "NONE"): 1}
