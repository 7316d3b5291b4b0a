"""Sends audit lines to the topic `__audit`: the second place of the audit log, for those who read it with a consumer.

The lines wait in a queue of bounded size. A batch at a time is sent to the leader of one partition, the same for all
lines of a broker, until its in-sync replicas have it. While they do not (no leader, too few replicas, a full disk), it
is sent again, and what does not fit in the queue meanwhile is lost and counted: the next batch begins with a line that
says how many are missing. A batch whose answer was lost may be there twice, with the same keys.

Nothing here is audited: brokers' calls are not, and the lines of the topic are not about itself
(docs/adr/0060-audit-lines-are-written-once-and-by-brokers-only.md).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from kraft.metadata.image import CurrentImage
from kraft.metadata.topic_names import AUDIT_TOPIC
from kraft.model.append_audit import AppendAuditRequest, AppendAuditResponse, AuditRecord
from kraft.model.callbacks import Callback
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.rpc.peers import Unreachable
from kraft.runtime.clock import Clock
from kraft.server.access.audit import line_of_lost
from kraft.server.broker.audit_log import SAID_AGAIN_AFTER_MS, text_of
from kraft.server.loop.periods import period_end

log = structlog.get_logger()

PERIOD_S: Final = 0.5
"""Lines of this time are sent together, and what failed is tried again after it."""

SAID_AFTER: Final = 4
"""Failed attempts before the log says why: a topic is created, and a leader replaced, within one or two."""

WAITING_BYTES_MAX: Final = 8 << 20
BATCH_BYTES_MAX: Final = 128 << 10
BATCH_LINES_MAX: Final = 500

DRAIN_S_MAX: Final = 2.0
"""Longest time that the end of a node waits for the last lines to be in the topic."""

Append = Callable[[BrokerId, AppendAuditRequest], Awaitable[AppendAuditResponse]]
"""Has a broker append lines. Raises Unreachable or Refusal."""


class AuditTopic:
    def __init__(
        self, node_id: BrokerId, image: CurrentImage, create_topic: Callback, append: Append, clock: Clock
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._create_topic = create_topic
        self._append = append
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._missing = 0
        """Lines that are lost, since one that is sent said how many."""

        self._batch: list[AuditRecord] = []
        """What is sent at present, or sent again."""

        self._missing_in_batch = 0
        """So many lost lines the batch tells of."""

        self._began_ms = clock.wall_ms()
        self._keys = 0
        self._failures = 0
        """Failed attempts since the last one that succeeded."""

        self._said_ms: int | None = None
        self.lost_count = 0
        """Lines since the start that are not in the topic, because it did not take them in time."""

    @property
    def is_empty(self) -> bool:
        return not (self._batch or self._waiting or self._missing)

    def put(self, lines: Sequence[bytes], dropped: int) -> None:
        """Take lines, behind so many that are missing. It waits for nothing; a thread calls it."""
        with self._lock:
            self._missing += dropped
            for line in lines:
                if self._waiting_bytes + len(line) > WAITING_BYTES_MAX:
                    self._missing += 1
                    self.lost_count += 1
                else:
                    self._waiting.append(line)
                    self._waiting_bytes += len(line)

    async def run(self) -> None:
        """Send what comes, until cancelled."""
        while True:
            await period_end(PERIOD_S)
            await self.send()

    async def send(self) -> None:
        """Send what waits, until something is in the way."""
        while not self.is_empty:
            problem = await self._send_batch()
            self._say(problem)
            if problem is not None:
                return

    def close(self) -> None:
        """Say what is left. Call it when nothing is sent any more."""
        left = len(self._batch) + len(self._waiting)
        if left:
            log.warning("audit lines not written to their topic before the stop", topic=AUDIT_TOPIC, lines=left)

    async def _send_batch(self) -> str | None:
        """Return what is in the way; None if a batch is in the topic."""
        topic = self._image().topic(AUDIT_TOPIC)
        if topic is None:
            self._create_topic()
            return "the topic does not exist yet"
        state = topic.partitions[self._node_id % len(topic.partitions)]
        if not state.has_leader:
            return f"partition {state.partition} has no leader"
        if not self._batch:
            self._take_batch()
        try:
            request = AppendAuditRequest(partition=state.partition, records=self._batch)
            response = await self._append(state.leader, request)
        except (Unreachable, Refusal) as error:
            return str(error)
        code = response.error_code
        if code == ErrorCode.NONE:
            self._batch, self._missing_in_batch = [], 0
            return None
        if not code.retriable:
            # It would be refused forever, and all others behind it.
            self._give_up()
        return f"{code.name}: {response.error_message}" if response.error_message else code.name

    def _take_batch(self) -> None:
        lines: list[bytes] = []
        with self._lock:
            self._missing_in_batch, self._missing = self._missing, 0
            size = 0
            while self._waiting and len(lines) < BATCH_LINES_MAX and size + len(self._waiting[0]) <= BATCH_BYTES_MAX:
                lines.append(self._waiting.popleft())
                size += len(lines[-1])
            self._waiting_bytes -= size
        if self._missing_in_batch:
            lines.insert(0, line_of_lost(self._missing_in_batch, text_of(self._clock.wall_ms())))
        self._batch = [AuditRecord(key=self._key(), value=each.rstrip(b"\n")) for each in lines]

    def _key(self) -> bytes:
        self._keys += 1
        return b"%d-%d-%d" % (self._node_id, self._began_ms, self._keys)

    def _give_up(self) -> None:
        with self._lock:
            lines = len(self._batch) - bool(self._missing_in_batch)
            self._missing += self._missing_in_batch + lines
            self.lost_count += lines
        self._batch, self._missing_in_batch = [], 0

    def _say(self, problem: str | None) -> None:
        """Say it when the topic takes no lines, once in a while that lines are lost by that, and when it takes them."""
        if problem is not None:
            self._failures += 1
            if self._failures == SAID_AFTER:
                log.warning("audit lines wait for their topic", topic=AUDIT_TOPIC, reason=problem)
        else:
            if self._failures >= SAID_AFTER:
                log.info("audit lines written to their topic", topic=AUDIT_TOPIC, lost_since_start=self.lost_count)
            self._failures = 0
        now_ms = self._clock.monotonic_ms()
        if self._missing and (self._said_ms is None or now_ms - self._said_ms >= SAID_AGAIN_AFTER_MS):
            self._said_ms = now_ms
            log.warning("audit lines lost, their topic takes none", topic=AUDIT_TOPIC, lost_since_start=self.lost_count)
