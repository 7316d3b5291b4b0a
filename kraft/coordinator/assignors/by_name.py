"""The assignors that members can ask for by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraft.coordinator.assignors.assignor import Assignor
from kraft.coordinator.assignors.ranges import assign_ranges
from kraft.coordinator.assignors.uniform import assign_uniformly

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
"""The default of Kafka's `group.consumer.assignors`: the first is used where no member asks for one."""
