"""Keys of the console's file that are about records."""

from __future__ import annotations

from typing import Final

import pytest

from kraft.console.config import ClusterConfig, InvalidConsoleFile, console_config
from kraft.console.records.permissions import Viewing

CLOSED: Final = {
    "clusters": "prod",
    "cluster.prod.bootstrap.servers": "b1:9092",
    "cluster.prod.security.protocol": "SASL_SSL",
    "cluster.prod.sasl.mechanism": "SCRAM-SHA-512",
}


def cluster(**changes: str) -> ClusterConfig:
    return console_config({**CLOSED, **changes}).clusters["prod"]


def test_records_of_a_cluster_with_logins_are_not_shown_unless_the_file_says_so() -> None:
    assert cluster().viewing.viewing is Viewing.OFF
    opened = console_config({"clusters": "dev", "cluster.dev.bootstrap.servers": "localhost:9094"})
    assert opened.clusters["dev"].viewing.viewing is Viewing.ON


def test_roles_rules_and_masks_are_read_in_the_order_of_the_file() -> None:
    found = cluster(
        **{
            "role.support.users": "anna, ben",
            "role.audit.claim.https://example.com/groups": "auditors",
            "cluster.prod.records.view": "masked",
            "cluster.prod.records.view.secret.topics": "secret-*",
            "cluster.prod.records.view.secret.view": "off",
            "cluster.prod.records.view.all.topics": "*",
            "cluster.prod.records.view.all.roles": "audit",
            "cluster.prod.records.view.all.view": "on",
            "cluster.prod.mask.cards.topics": "pay*",
            "cluster.prod.mask.cards.fields": "card.number, eMail",
            "cluster.prod.mask.cards.key": "true",
            "cluster.prod.mask.cards.headers": "Auth*",
            "cluster.prod.mask.cards.roles": "audit",
        }
    ).viewing
    assert [each.name for each in found.rules] == ["secret", "all"]
    assert found.masks[0].fields == (("card", "number"), ("email",))
    assert (found.masks[0].key, found.masks[0].headers) == (True, ("auth*",))
    assert found.roles["support"].users == {"anna", "ben"}
    assert found.permission("x", {"https://example.com/groups": ["auditors"]}, "payments").viewing is Viewing.ON


def test_a_registry_has_an_address_and_a_login() -> None:
    found = cluster(
        **{
            "cluster.prod.schema.registry.url": "https://registry.example:8081/base",
            "cluster.prod.schema.registry.basic.auth.user.info": "console:a:b",
        }
    ).registry
    assert found is not None
    assert (found.url, found.user, found.password.text) == ("https://registry.example:8081/base", "console", "a:b")
    assert "a:b" not in repr(found)


@pytest.mark.parametrize(
    ("changes", "begin"),
    [
        ({"records.view": "maybe"}, "cluster.prod.records.view=maybe is not one of off, masked, on"),
        ({"records.view.a.view": "on"}, "cluster.prod.records.view.a.topics is missing"),
        ({"records.view.a.topics": "x"}, "cluster.prod.records.view.a.view is missing"),
        ({"records.view.a.colour": "x"}, "cluster.prod.records.view.a.colour is not known"),
        ({"mask.a.topics": "x"}, "cluster.prod.mask.a hides nothing"),
        ({"mask.a.fields": "x..y", "mask.a.topics": "x"}, "cluster.prod.mask.a.fields=x..y is no path"),
        ({"mask.a.fields": "x", "mask.a.topics": "x", "mask.a.roles": "r"}, "cluster.prod.mask.a.roles=r is no role"),
        (
            {"mask.a.fields": "x", "mask.a.topics": "x", "mask.a.key": "yes"},
            "cluster.prod.mask.a.key=yes is",
        ),
        ({"mask.A.fields": "x"}, "cluster.prod.mask.A has no name"),
        ({"schema.registry.url": "ftp://x"}, "cluster.prod.schema.registry.url=ftp://x is no address"),
        ({"schema.registry.url": "http://u:secret@x"}, "cluster.prod.schema.registry.url=...@x is no address"),
        (
            {"schema.registry.colour": "x", "schema.registry.url": "http://x"},
            "cluster.prod.schema.registry.colour",
        ),
        (
            {"schema.registry.url": "http://x", "schema.registry.basic.auth.user.info": "a:secret"},
            "cluster.prod.schema.registry.basic.auth.user.info would be sent in the clear",
        ),
        (
            {"schema.registry.url": "https://x", "schema.registry.ssl.truststore.location": "/missing.pem"},
            "cluster.prod.schema.registry.",
        ),
    ],
)
def test_a_bad_value_is_one_line(changes: dict[str, str], begin: str) -> None:
    with pytest.raises(InvalidConsoleFile) as error:
        cluster(**{f"cluster.prod.{name}": value for name, value in changes.items()})
    assert any(each.startswith(begin) for each in error.value.problems), error.value.problems
    assert "secret" not in str(error.value)


def test_a_role_without_anybody_is_one_line() -> None:
    with pytest.raises(InvalidConsoleFile, match=r"role\.a has nobody"):
        cluster(**{"role.a.users": ""})
