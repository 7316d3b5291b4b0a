from __future__ import annotations

from kraft.model.principal import ANONYMOUS, Principal
from kraft.model.request_context import RequestContext


def test_a_principal_is_written_as_in_kafkas_acls() -> None:
    assert str(Principal("alice")) == "User:alice"


def test_a_request_of_a_listener_without_login_is_anonymous() -> None:
    context = RequestContext(version=1)
    assert context.principal == ANONYMOUS
    assert str(context.principal) == "User:ANONYMOUS"
