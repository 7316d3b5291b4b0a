"""What a worker says of an error that lasts until it starts again."""

from __future__ import annotations

from kraft.client import AuthenticationFailed, ErrorCode, KraftError
from kraft.mirror.clients import reason_of


def test_a_login_that_is_refused_needs_another_start_and_a_certificate_does_not() -> None:
    refused = AuthenticationFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, "no such user")
    assert reason_of(refused, {}).startswith(f"{refused}; then start this worker again")
    untrusted = AuthenticationFailed(ErrorCode.UNKNOWN_SERVER_ERROR, "its certificate is not trusted")
    assert reason_of(untrusted, {}) == str(untrusted)
    assert reason_of(KraftError("a:1 is away"), {"a:1": "A"}) == "cluster A: a:1 is away"
