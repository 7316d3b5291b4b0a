"""Raises the client's errors as the connector's, in one line, without what led to them inside of the client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kraft.client import ErrorCode, LogTruncated, Refusal, Unreachable
from spark_connector.cluster import ClusterError, Missing, OffsetOutOfRange, ReadStalled, TruncatedWhileRead


@contextmanager
def connector_errors() -> Iterator[None]:
    """Raise Missing or ClusterError in place of the client's errors, whatever the call."""
    try:
        yield
    except Refusal as refusal:
        if refusal.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise Missing(refusal.message) from None
        raise ClusterError(str(refusal)) from None
    except Unreachable as unreachable:
        raise ClusterError(str(unreachable)) from None


@contextmanager
def read_errors() -> Iterator[None]:
    """The same for a read, whose range may meet further errors: `Cluster.read` lists them."""
    with connector_errors():
        try:
            yield
        except LogTruncated as truncated:
            raise TruncatedWhileRead(truncated.what) from None
        except Refusal as refusal:
            match refusal.error_code:
                case ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise OffsetOutOfRange(refusal.message) from None
                case ErrorCode.REQUEST_TIMED_OUT:
                    raise ReadStalled(refusal.message) from None
                case _:
                    raise
