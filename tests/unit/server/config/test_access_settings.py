from __future__ import annotations

from typing import Any, Final

import pytest

from kraft.metadata.acls import NO_ACLS
from kraft.metadata.authorizer import Reason, Requester
from kraft.model.access import Operation, ResourceType
from kraft.model.config_keys import keys_of
from kraft.server.config.access_settings import STANDARD_AUTHORIZER, AccessSettings
from tests.unit.server.config.files import COMBINED, Load, warned_of

KEYS: Final = {each.name: each for each in keys_of(AccessSettings).values()}
OF_ZOOKEEPER: Final = "kafka.security.authorizer.AclAuthorizer"


def test_by_default_nobody_is_asked() -> None:
    assert AccessSettings().authorizer() is None
    assert AccessSettings(super_users=("User:admin",)).authorizer() is None


def test_the_standard_authorizer_decides_with_super_users() -> None:
    read: Any = KEYS["super.users"].read("User:admin; User:CN=ops,O=x ;;")
    current = AccessSettings(authorizer_class=STANDARD_AUTHORIZER, super_users=read).authorizer()
    assert current is not None
    for principal in ("User:admin", "User:CN=ops,O=x", "User:a"):
        decision = current.of(NO_ACLS).decide(Requester(principal, ""), Operation.READ, ResourceType.TOPIC, "t")
        assert decision.reason is (Reason.NOTHING_ALLOWS if principal == "User:a" else Reason.SUPER_USER)


def test_an_authorizer_without_super_users_is_warned_of(load_text: Load) -> None:
    (warning,) = AccessSettings(authorizer_class=STANDARD_AUTHORIZER).warnings()
    assert warning.key == "super.users"
    assert "nobody can create ACLs" in warning.message
    assert AccessSettings().warnings() == []
    text = f"{COMBINED}authorizer.class.name={STANDARD_AUTHORIZER}\n"
    assert warned_of(load_text(text)) == [warning]
    assert warned_of(load_text(f"{text}super.users=User:admin\n")) == []


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("authorizer.class.name", OF_ZOOKEEPER, f"Kraft has not: set {STANDARD_AUTHORIZER}"),
        ("authorizer.class.name", "com.example.Mine", f"expected {STANDARD_AUTHORIZER}, or nothing"),
        ("super.users", "admin", "'admin' has no kind: expected principals separated by semicolons"),
        ("super.users", "User:a,b;c", "'c' has no kind"),
        ("allow.everyone.if.no.acl.found", "yes", "expected true or false"),
    ],
)
def test_what_cannot_be_is_refused(key: str, value: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        KEYS[key].read(value)
