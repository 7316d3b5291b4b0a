"""Transactional ids are used again by later batches, and never within one."""

from __future__ import annotations

from spark_connector.sink_ids import TransactionalIds, Use

FIRST, SECOND = Use("run", "0"), Use("run", "1")


def test_an_id_is_used_again_by_the_next_batch() -> None:
    ids = TransactionalIds()
    assert ids.take("query", FIRST) is None
    ids.add("query", "a", FIRST)
    assert ids.take("query", FIRST) is None, "its transaction waits for the commit of the batch"
    ids.add("query", "b", FIRST)
    assert {ids.take("query", SECOND), ids.take("query", SECOND)} == {"a", "b"}
    assert ids.take("query", SECOND) is None


def test_an_id_is_used_again_by_the_same_batch_of_another_run() -> None:
    ids = TransactionalIds()
    ids.add("query", "a", FIRST)
    assert ids.take("query", Use("next run", "0")) == "a"


def test_queries_have_ids_of_their_own() -> None:
    ids = TransactionalIds()
    ids.add("query", "a", FIRST)
    assert ids.take("other", SECOND) is None


def test_the_first_task_of_a_run_is_known() -> None:
    ids = TransactionalIds()
    assert ids.is_new("query", FIRST)
    ids.add("query", "a", FIRST)
    assert not ids.is_new("query", SECOND)
    assert ids.is_new("query", Use("next run", "1"))
    assert ids.is_new("other", FIRST)
