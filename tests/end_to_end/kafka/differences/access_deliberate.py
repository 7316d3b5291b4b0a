"""Deliberate differences in the matrix of access."""

from __future__ import annotations

from typing import Final

from tests.end_to_end.kafka.differences.comparison import Deliberate

ACCESS: Final = (
    Deliberate(
        scenarios="access_matrix",
        places="DescribeUserScramCredentials to *: results.0.user",
        kafka="",
        kraft="nobody",
        reason="beside the refusal of all the user is named that was asked for; clients look at the refusal alone",
    ),
)
