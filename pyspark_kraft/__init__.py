"""Registers the data source `kraft` with Spark: where this package is installed, `format("kraft")` works by itself.

Spark imports every top-level module whose name begins with `pyspark_`, and registers its `DefaultSource`. It does so in
a process of its own before it uses the first source written in Python, so this import has to be quick.
"""

from __future__ import annotations

from spark_connector.source import KraftDataSource as DefaultSource

__all__ = ["DefaultSource"]
