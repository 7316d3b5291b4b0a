"""A login at the cluster: what is the user's fault, and what is not."""

from __future__ import annotations

import re

import pytest

from kraft.client import Admin, AuthenticationFailed, ErrorCode, KraftError, Refusal
from kraft.console import clients
from kraft.console.config import ClusterConfig


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AuthenticationFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, "b:9094 refused user 'a'"), clients.WrongLogin),
        (AuthenticationFailed(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "it offers PLAIN"), clients.NoAnswer),
        (AuthenticationFailed(ErrorCode.UNKNOWN_SERVER_ERROR, "b:9094: it has no TLS"), clients.NoAnswer),
        (KraftError("no broker answered"), clients.NoAnswer),
        # Whoever may not ask has logged in all the same.
        (Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no"), None),
    ],
)
def test_only_a_refused_password_is_called_one(
    monkeypatch: pytest.MonkeyPatch, error: KraftError, expected: type[Exception] | None
) -> None:
    cluster = ClusterConfig(name="prod", bootstrap_servers="b:1")

    def refused(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Admin, "describe_cluster", refused)
    if expected is None:
        clients.logged_in(cluster, "a", "secret").close()
        return
    with pytest.raises(expected, match=re.escape(str(error))):
        clients.logged_in(cluster, "a", "secret")
