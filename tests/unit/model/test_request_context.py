from __future__ import annotations

import pytest

from kraft.model.request_context import RequestContext


@pytest.mark.parametrize(
    ("peer", "host"),
    [("10.0.0.7:5100", "/10.0.0.7"), ("[::1]:5100", "/::1"), ("?", "/?"), ("unix:/run/kraft", "/unix")],
)
def test_a_host_is_shown_as_kafka_shows_it(peer: str, host: str) -> None:
    assert RequestContext(version=0, peer=peer).client_host == host
