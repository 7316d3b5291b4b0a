from __future__ import annotations

from collections.abc import Awaitable

import pytest

from kraft.server.kafka_listener.response_writer import ResponseBytes
from tests.unit.server.kafka_listener.served import Served, run


@pytest.mark.filterwarnings("error:coroutine .* was never awaited")
def test_a_request_whose_connection_breaks_as_it_begins_is_begun_and_cancelled() -> None:
    """Python would warn, in the node's log, of a request that nobody has ever awaited."""

    async def test(served: Served) -> None:
        client = await served.client()
        (connection,) = served.listener._connections
        waiting = served.requests._waiting

        def breaks(request: bytes) -> Awaitable[ResponseBytes]:
            connection._transport.abort()
            return waiting(request)

        served.requests._waiting = breaks  # type: ignore[method-assign]  # The test breaks it there.
        client.send(b"wait for ever")
        await served.until(lambda: served.requests.cancelled == [b"wait for ever"])

    run(test)
