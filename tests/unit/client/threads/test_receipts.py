"""Receipts of records: what the futures of those who sent them get."""

from __future__ import annotations

from kraft.client.model.errors import ClientClosed, RecordTooLarge
from kraft.client.threads.receipts import ThreadReceipt
from kraft.client.threads.record_future import RecordFuture


def test_records_that_failed_before_the_rest_of_their_run_keep_their_error() -> None:
    futures = [RecordFuture(), RecordFuture(), RecordFuture()]
    run, too_large = ThreadReceipt(futures), RecordTooLarge(2_000, 1_000)
    run.part(1, 2).not_queued(too_large)
    # As when the producer is closed before the rest of the run is queued.
    closed = ClientClosed("the producer is closed")
    run.failed(closed)
    assert [future.exception(0) for future in futures] == [closed, too_large, closed]
