"""Bounds on the memory that Kafka clients can make a node hold, and their sum.

Every part has a `Budget`. R is `socket.request.max.bytes`, the maximum size of one request:

| Part                                              | At most                                  |
|---------------------------------------------------|------------------------------------------|
| arriving requests of up to 64 KiB                 | R/8, plus one of them                    |
| larger arriving requests                          | 3R/8, plus one of them                   |
| large fetches in progress                         | R/32                                     |
| other large requests in progress                  | R/256                                    |
| a request too large for these two                 | one at a time                            |
| unread responses                                  | R/4, plus the last one that found room   |
| arriving requests of clients before login         | R/16, plus one in each of two budgets    |

The budgets count bytes of frames and responses. A decoded large request takes many times its frame, so only a few are
carried out at once (`large_requests.py`). The sum is seven eighths of R plus two requests of at most R: one that
arrives and one that is carried out. A request before login has at most 512 KiB, and what strangers send takes nothing
of what clients have that are logged in. When nothing is left, a connection may still send the first KiB of a request
and receive a response of 16 KiB, or one without records; there are at most `max.connections` connections. Bounds that
do not depend on R come on top:

| Part                                              | At most                                  |
|---------------------------------------------------|------------------------------------------|
| partitions of waiting fetches                     | 50,000, of 600 bytes each                |
| partitions of fetch sessions                      | 50,000, of 500 bytes each                |
| records that wait to be appended                  | 32 MiB, or one append                    |
| a coordinator's batch that waits to be appended   | one of `max.message.bytes` each          |
| transactional ids, with their partitions          | 16 MiB for each coordinator              |
| records that waiting fetches have read            | 64 MiB                                   |
| requests that wait for a rebalance                | 64 MiB                                   |
| members of groups, with their metadata            | 128 MiB, and computed assignments        |

Every wait ends: a wait for memory or a turn when the connection has been idle for `connections.max.idle.ms`, a wait for
room for a response when its client's wait ends, and a wait to be appended when the request times out.
"""

from __future__ import annotations

from typing import Final

from kraft.server.kafka_listener.large_requests import LargeRequests
from kraft.server.kafka_listener.receive_memory import SMALL_BYTES_MAX, ReceiveMemory
from kraft.server.loop.budget import Budget
from kraft.server.loop.unread_responses import RESPONSE_RECORD_BYTES_MAX, UNREAD_SHARE, UnreadResponses

STRANGERS_SHARE: Final = 8
"""Budgets of strangers are smaller by this factor: together they take `socket.request.max.bytes` / 16."""

STRANGERS_FRAME_BYTES_MAX: Final = 512 * 1024
"""Largest request before login, unless `socket.request.max.bytes` or `sasl.server.max.receive.size` is smaller."""


class ListenerMemory:
    """The budgets, in bytes, that all listeners of one node share."""

    def __init__(self, request_bytes_max: int) -> None:
        self._request_bytes_max: Final = request_bytes_max
        self.receive = ReceiveMemory(request_bytes_max)
        self.strangers = ReceiveMemory(request_bytes_max // STRANGERS_SHARE)
        """For requests of clients that have not logged in."""
        self.large = LargeRequests(request_bytes_max)
        self.unread = UnreadResponses(request_bytes_max // UNREAD_SHARE)

    @property
    def budgets(self) -> dict[str, Budget]:
        """The budgets, by what they are for."""
        receive, strangers, large = self.receive, self.strangers, self.large
        return {
            "arriving_small_requests": receive.small,
            "arriving_large_requests": receive.large,
            "arriving_small_requests_before_login": strangers.small,
            "arriving_large_requests_before_login": strangers.large,
            "large_fetches_in_progress": large.fetches,
            "other_large_requests_in_progress": large.others,
            "largest_request_in_progress": large.largest,
            "unread_responses": self.unread.budget,
        }

    @property
    def held_bytes(self) -> int:
        return sum(budget.held for budget in self.budgets.values())

    @property
    def bytes_max(self) -> int:
        """Maximum that all budgets together ever grant."""
        beyond = SMALL_BYTES_MAX + 2 * self._request_bytes_max + RESPONSE_RECORD_BYTES_MAX
        beyond += SMALL_BYTES_MAX + min(STRANGERS_FRAME_BYTES_MAX, self._request_bytes_max)
        return sum(budget.size_max for budget in self.budgets.values()) + beyond
