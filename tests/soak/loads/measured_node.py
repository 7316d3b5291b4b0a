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
    # Final for the node that ships; this one reports far shorter holds.
    vars(watch).update(HELD_MS_MIN=HELD_MS_MIN, SAMPLE_S=SAMPLE_S, REPORT_INTERVAL_S=REPORT_INTERVAL_S)
    main()
