"""Errors of files with secrets and certificates."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kraft.server.identity.credential_files import CredentialsError

SECRET = "b7Jq1h0s5oQ8nGdYw3v2uK6rTzXcVbNm"


def refusal(read: Callable[[], object]) -> str:
    with pytest.raises(CredentialsError) as raised:
        read()
    message = str(raised.value)
    assert "\n" not in message
    assert SECRET not in message
    return message
