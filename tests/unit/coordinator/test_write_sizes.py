"""A shard refuses a decision that is too large for its log before it spends time on it."""

from __future__ import annotations

from kraft.coordinator.shard import DecisionContext, Ticket
from kraft.coordinator.shard_effects import SendReplies
from kraft.coordinator.shard_machine import ShardFacts, ShardMachine
from kraft.metadata.image import EMPTY_IMAGE
from kraft.model.errors import ErrorCode, Refusal
from tests.support.counter_shard import Add, Command, CounterShard, Waiters, encode


class Counting(CounterShard):
    replays = 0

    def replay(self, replicated: int, record: bytes) -> int:
        self.replays += 1
        return super().replay(replicated, record)


def test_a_decision_that_is_too_large_is_encoded_up_to_the_limit_and_not_replayed() -> None:
    encoded: list[bytes] = []

    def counted(record: bytes) -> tuple[bytes, bytes | None]:
        encoded.append(record)
        return encode(record)

    counting = Counting()
    context = DecisionContext(now_ms=0, image=EMPTY_IMAGE, random_id="id")
    facts = ShardFacts(
        context=lambda: context,
        batch_bytes_max=lambda: 10_000,
        append_refusal=lambda: None,
        producer_refusal=lambda *_: None,
    )
    shard: ShardMachine[int, Waiters, Command, bytes] = ShardMachine(counting, counted, facts, 0)
    shard.loaded(counting.loaded(0, context))
    (refused,) = shard.command(Ticket(1), Add(1, records=50_000))
    assert isinstance(refused, SendReplies)
    assert isinstance(refused.replies[0].response, Refusal)
    assert refused.replies[0].response.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (counting.replays, shard.latest) == (0, 0)
    assert len(encoded) < 1_000
