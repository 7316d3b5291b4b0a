"""PySpark's versions: what each of them can do with the source, and where their interfaces differ."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

Version = tuple[int, int]

STREAMS: Final[Version] = (4, 2)
"""Before it, Spark does not tell a source written in Python where the query stands when it asks for the next end, nor
how much it may read. A stream could neither notice lost records nor bound a micro-batch."""


class SparkTooOld(NotImplementedError):
    """The version of PySpark cannot do what was asked for."""

    def __init__(self, what: str, least: Version) -> None:
        needed = ".".join(map(str, least))
        super().__init__(f'{what} with format("kraft") needs PySpark {needed}, this is {pyspark.__version__}')


def require(what: str, least: Version) -> None:
    """Raises SparkTooOld if this PySpark is older than `least`."""
    major, minor, *_ = pyspark.__version__.split(".")
    if (int(major), int(minor)) < least:
        raise SparkTooOld(what, least)


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema in which Spark expects `schema`, with times in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema as convert

    # Before 4.2, UTC was the default, and no other zone could be named.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(convert).parameters else {}
    return convert(schema, **zone)
