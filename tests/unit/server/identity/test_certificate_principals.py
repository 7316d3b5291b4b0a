"""Whom a certificate stands for at a listener."""

from __future__ import annotations

import pytest

from kraft.model.principal import ANONYMOUS, Principal
from kraft.server.identity.certificate_principals import kafka_principal
from kraft.tls.handshakes import ClientRefused
from kraft.tls.principal_rules import PrincipalRules
from tests.support.tls_wire import context


@pytest.fixture
def shown() -> bytes:
    return context().certificate


def test_a_certificate_stands_for_its_owner(shown: bytes) -> None:
    assert kafka_principal(PrincipalRules("DEFAULT"), shown) == Principal("CN=node")


def test_rules_map_the_owner(shown: bytes) -> None:
    assert kafka_principal(PrincipalRules("RULE:^CN=(.*)$/$1/U"), shown) == Principal("NODE")


def test_a_client_that_showed_none_is_anonymous() -> None:
    assert kafka_principal(PrincipalRules("DEFAULT"), None) == ANONYMOUS


def test_a_client_that_logs_in_later_is_not_known_by_its_certificate(shown: bytes) -> None:
    assert kafka_principal(None, shown) == ANONYMOUS


def test_a_client_that_no_rule_names_is_refused(shown: bytes) -> None:
    with pytest.raises(ClientRefused):
        kafka_principal(PrincipalRules("RULE:^OU=(.*)$/$1/"), shown)
    with pytest.raises(ClientRefused):
        kafka_principal(PrincipalRules("DEFAULT"), b"no certificate")
