"""A streaming source without a cluster: what Spark's interface for sources in Python takes by itself.

Each of its two tasks yields half of a trigger's rows, which are always the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from benchmarks.spark_session import BARE_FORMAT, PARTITIONS, TRIGGER_ROWS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_VALUE: Final = b"x" * 100


@dataclass(frozen=True)
class Task(InputPartition):
    number: int


class BareSource(DataSource):
    """Option `triggers`: how many there are if maxOffsetsPerTrigger limits them; otherwise there is one."""

    @classmethod
    def name(cls) -> str:
        return BARE_FORMAT

    def schema(self) -> str:
        return "value BINARY, partition INT, offset LONG"

    def streamReader(self, schema: StructType) -> BareReader:
        return BareReader(int(self.options["triggers"]) if "maxOffsetsPerTrigger" in self.options else 1)


class BareReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, triggers: int) -> None:
        self._triggers = triggers

    def initialOffset(self) -> dict[str, Any]:
        return {"triggers": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(TRIGGER_ROWS)

    def prepareForTriggerAvailableNow(self) -> None: ...

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {"triggers": min(self._triggers, start["triggers"] + 1)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [Task(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        rows = TRIGGER_ROWS // PARTITIONS
        yield pa.RecordBatch.from_pydict(
            {
                "value": pa.array([_VALUE] * rows, pa.binary()),
                "partition": pa.array([0] * rows, pa.int32()),
                "offset": pa.array(range(rows), pa.int64()),
            }
        )

    def commit(self, end: dict[str, Any]) -> None: ...

    def stop(self) -> None: ...
