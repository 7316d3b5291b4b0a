"""Fixtures of the tests of clients."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.client.members import PROTOCOLS


@pytest.fixture(params=list(PROTOCOLS))
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Settings of the members."""
    return PROTOCOLS[request.param]
