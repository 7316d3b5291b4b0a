"""Deliberate differences in the matrix of access."""

from __future__ import annotations

from typing import Final

from tests.end_to_end.kafka.differences.comparison import Deliberate

_INVALID_REQUEST: Final = 42

ACCESS: Final = (
    *(
        Deliberate(
            scenarios="access_matrix",
            places=f"{api} of metrics to *: {answers}.0.error_code",
            kafka=0,
            kraft=_INVALID_REQUEST,
            reason="no metrics of clients are wanted: whoever may ask for the configs of these is told so",
        )
        for api, answers in (("DescribeConfigs", "results"), ("IncrementalAlterConfigs", "responses"))
    ),
    Deliberate(
        scenarios="access_matrix",
        places="DescribeUserScramCredentials to *: results.0.user",
        kafka="",
        kraft="nobody",
        reason="beside the refusal of all the user is named that was asked for; clients look at the refusal alone",
    ),
)
