"""Stream reader of a query whose options or schema are wrong: every call of Spark raises the error.

Spark's own process for streams cannot report an error of `streamReader`: it stops the reader that it does not have, and
the UnboundLocalError of that becomes the last line of what the user sees (Spark 4.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from spark_connector.given import OptionError


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, error: OptionError) -> None:
        self._error = error

    def getDefaultReadLimit(self) -> NoReturn:
        raise self._error

    def prepareForTriggerAvailableNow(self) -> NoReturn:
        raise self._error

    def initialOffset(self) -> NoReturn:
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> NoReturn:
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise self._error
