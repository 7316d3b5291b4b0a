"""What clients of Kafka's protocol can make a node hold, as its budgets count it, and the sum of that.

Every part has a `Budget`. R is `socket.request.max.bytes`, the size that one request may have:

| What                                              | At most                                  |
|---------------------------------------------------|------------------------------------------|
| requests of up to 64 KiB that arrive              | R/8, and one of them                     |
| larger requests that arrive                       | 3R/8, and one of them                    |
| large fetches that are carried out                | R/32                                     |
| other large requests that are carried out         | R/256                                    |
| a request too large for these two                 | one at a time                            |
| answers that are not read                         | R/4, and the last one that found room    |

Bytes of frames and answers are counted; what a large request is decoded to takes many times its frame, which is why
so few are carried out at once (`large_requests.py`). The sum is four fifths of R and two requests beyond them, of R at
most: one that arrives and one that is carried out. When nothing is left, a connection may still send the first KiB of a
request and be sent an answer of 16 KiB, or one without records; of connections there are `max.connections`. Bounds that
do not depend on R stand beside this sum:

| What                                              | At most                                  |
|---------------------------------------------------|------------------------------------------|
| partitions of fetches that wait                   | 50,000, of 600 bytes each                |
| partitions of fetch sessions                      | 50,000, of 500 bytes each                |
| records that wait to be appended                  | 32 MiB, or one append                    |

Nobody waits for ever: memory and turns are waited for until the connection has been idle for `connections.max.idle.ms`,
room for an answer as long as its client waits for it, and the turn to be appended as long as the request lasts.
"""

from __future__ import annotations

from typing import Final

from kraft.server.kafka_listener.large_requests import LargeRequests
from kraft.server.kafka_listener.receive_memory import SMALL_BYTES_MAX, ReceiveMemory
from kraft.server.kafka_listener.unread_answers import ANSWER_BYTES_MAX, UNREAD_SHARE, UnreadAnswers
from kraft.server.loop.budget import Budget


class ListenerMemory:
    """The budgets in bytes of all listeners of one node."""

    def __init__(self, request_bytes_max: int) -> None:
        self._request_bytes_max: Final = request_bytes_max
        self.receive = ReceiveMemory(request_bytes_max)
        self.large = LargeRequests(request_bytes_max)
        self.unread = UnreadAnswers(request_bytes_max // UNREAD_SHARE)

    @property
    def budgets(self) -> tuple[Budget, ...]:
        receive, large = self.receive, self.large
        return receive.small, receive.large, large.fetches, large.others, large.largest, self.unread.budget

    @property
    def held_bytes(self) -> int:
        return sum(budget.held for budget in self.budgets)

    @property
    def bytes_max(self) -> int:
        """More is never granted in all budgets together."""
        beyond = SMALL_BYTES_MAX + 2 * self._request_bytes_max + ANSWER_BYTES_MAX
        return sum(budget.size_max for budget in self.budgets) + beyond
