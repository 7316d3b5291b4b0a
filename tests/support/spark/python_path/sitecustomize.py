"""Read by every Python at its start that has this folder on its PYTHONPATH, for the Python workers of Spark.

Spark puts an archive with pyspark's source first on their path. Of an archive nothing compiled is kept, so each process
would compile some hundred modules, which takes longer than all that most of them do.
"""

from __future__ import annotations

import sys

sys.path[:] = [each for each in sys.path if not each.endswith("/pyspark.zip")]
