"""The `kraft` command in a node that reports how long its loop was held, however short, ten times as often.

python -m tests.soak.loads.measured_node server start -c FILE
"""

from __future__ import annotations

from kraft.cli.main import main
from kraft.server.loop import watch

HELD_MS_MIN = 1.0
SAMPLE_S = 0.002
REPORT_INTERVAL_S = 0.25

if __name__ == "__main__":
    # They are final for the node that ships; this one reports far shorter holds.
    watch.HELD_MS_MIN = HELD_MS_MIN  # type: ignore[misc]
    watch.SAMPLE_S = SAMPLE_S  # type: ignore[misc]
    watch.REPORT_INTERVAL_S = REPORT_INTERVAL_S  # type: ignore[misc]
    main()
