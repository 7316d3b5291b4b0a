"""Spark finds the data source by itself: it imports every top-level module that is named `pyspark_...`."""

from __future__ import annotations

import json
import subprocess
import sys
from pkgutil import iter_modules

import pyspark_kraft
from spark_connector import KraftDataSource

_WHAT_SPARK_DOES = """
import json, pickle, sys
from pyspark.sql.datasource import DataSource
import pyspark_kraft
assert issubclass(pyspark_kraft.DefaultSource, DataSource)
pickle.dumps(pyspark_kraft.DefaultSource)
print(json.dumps([pyspark_kraft.DefaultSource.name(), *sys.modules]))
"""


def test_the_module_that_spark_looks_for_has_the_source() -> None:
    assert "pyspark_kraft" in {module.name for module in iter_modules()}
    assert pyspark_kraft.DefaultSource is KraftDataSource


def test_looking_the_source_up_loads_neither_grpc_nor_arrow() -> None:
    done = subprocess.run([sys.executable, "-c", _WHAT_SPARK_DOES], capture_output=True, check=True, timeout=60)
    name, *modules = json.loads(done.stdout)
    assert name == "kraft"
    assert {"grpc", "google.protobuf", "numpy", "pyarrow", "pandas"}.isdisjoint(modules)
