"""What the driver commits and aborts, and what a task may not write."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.client import ErrorCode, PreparedTransaction, Refusal
from spark_connector import sink, sink_clients
from spark_connector.sink import SinkError, Written
from spark_connector.sink_options import SinkOptions

OPTIONS = SinkOptions(bootstrap_servers=("a:1",), topic="orders")


@dataclass
class FakeAdmin:
    """Notes the calls. `refusal` is raised by commits and aborts."""

    is_new: bool = True
    refusal: Refusal | None = None
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def commit_transactions(self, committer: str, sequence: int, transactions: list[PreparedTransaction]) -> bool:
        self.calls.append(("commit", committer, sequence, [each.transactional_id for each in transactions]))
        self._refuse()
        return self.is_new

    def abort_transactions(self, transactions: list[PreparedTransaction], timeout_ms: int = 0) -> None:
        self.calls.append(("abort", [each.transactional_id for each in transactions]))
        self._refuse()

    def abort_other_transactions(self, committer: str, kept: set[str] = frozenset(), timeout_ms: int = 0) -> None:  # type: ignore[assignment]  # Any collection.
        self.calls.append(("abort others", committer, sorted(kept)))
        self._refuse()

    def _refuse(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def describe_topic_configs(self, topic: str) -> list[Any]:
        return [SimpleNamespace(name="max.message.bytes", value="1048588")]


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin()
    monkeypatch.setattr(sink_clients, "clients", lambda servers: SimpleNamespace(admin=fake))
    return fake


def written(transactional_id: str, *, may_have_lost: bool = False) -> Written:
    transaction = PreparedTransaction(transactional_id=transactional_id, producer_id=1, producer_epoch=0)
    return Written("query", transaction, 3, may_have_lost)


def test_the_transactions_of_all_tasks_are_committed_in_one_call(admin: FakeAdmin) -> None:
    sink.commit(OPTIONS, [written("a"), Written(), written("b")], 7)
    assert admin.calls == [("commit", "query", 7, ["a", "b"])]


def test_a_batch_without_records_needs_no_call(admin: FakeAdmin) -> None:
    sink.commit(OPTIONS, [Written(), Written()], 7)
    sink.commit(OPTIONS, [], 8)
    sink.abort(OPTIONS, [None, Written()])
    assert admin.calls == []


def test_what_a_batch_that_was_committed_before_has_written_again_is_aborted(
    admin: FakeAdmin, caplog: pytest.LogCaptureFixture
) -> None:
    admin.is_new = False
    with caplog.at_level(logging.WARNING):
        sink.commit(OPTIONS, [written("a")], 7)
    assert admin.calls == [("commit", "query", 7, ["a"]), ("abort", ["a"])]
    assert "committed before: committer=query batch=7 records=3" in caplog.text


def test_what_lost_tasks_have_left_open_is_aborted_after_the_commit(admin: FakeAdmin) -> None:
    sink.commit(OPTIONS, [written("a"), written("b", may_have_lost=True)], 7)
    assert admin.calls == [("commit", "query", 7, ["a", "b"]), ("abort others", "query", ["a", "b"])]


def test_a_refused_commit_is_one_line(admin: FakeAdmin) -> None:
    admin.refusal = Refusal(ErrorCode.TRANSACTION_ABORTABLE, "nothing was committed")
    with pytest.raises(SinkError, match="TRANSACTION_ABORTABLE: nothing was committed") as refused:
        sink.commit(OPTIONS, [written("a")], 7)
    assert refused.value.__cause__ is None


def test_an_abort_aborts_what_is_known_and_what_is_not(admin: FakeAdmin) -> None:
    sink.abort(OPTIONS, [written("a"), None])
    assert admin.calls == [("abort", ["a"]), ("abort others", "query", [])]


def test_an_abort_of_a_frame_whose_tasks_are_all_lost_aborts_what_they_have_left(admin: FakeAdmin) -> None:
    sink.abort(OPTIONS, [None], "query")
    assert admin.calls == [("abort others", "query", [])]


def test_at_least_once_nothing_is_aborted(admin: FakeAdmin) -> None:
    sink.abort(replace(OPTIONS, is_exactly_once=False), [Written(records=3)], "query")
    assert admin.calls == []


def test_an_abort_that_fails_is_logged_and_no_error(admin: FakeAdmin, caplog: pytest.LogCaptureFixture) -> None:
    admin.refusal = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no leader")
    with caplog.at_level(logging.WARNING):
        sink.abort(OPTIONS, [written("a")])
    assert "transactions left open until their transaction.timeout.ms" in caplog.text


def test_tasks_that_cannot_be_committed_together_are_refused_before_they_write(admin: FakeAdmin) -> None:
    clients: Any = SimpleNamespace(admin=admin)
    sink._check_tasks(clients, sink.TASKS_THAT_FIT, 90)
    with pytest.raises(SinkError, match="10000 tasks or more are too many to commit together: coalesce the query"):
        sink._check_tasks(clients, 10_000, 90)
