"""`kraft api-versions`: the APIs of Kafka's protocol that each broker serves, with their versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kraft.cli.broker_answers import answers_in, end_without, silent_brokers
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
    open_admin,
)
from kraft.cli.printing import joined, print_columns, print_json

if TYPE_CHECKING:
    from kraft.wire.schema.api_versions import ApiVersionsResponse

NOT_SERVED: Final = "-"


def api_versions(
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show the versions of Kafka's APIs that each broker serves.

    Brokers that serve the same share a column: there is more than one only while a cluster is upgraded. A client uses
    the highest version of an API that its broker and itself have. With --output json also the feature levels, which
    kraft features describe shows. Brokers that did not answer are named at the end, and the exit code is then 1.
    """
    with open_admin(bootstrap_server, timeout_ms) as admin:
        outcomes = admin.describe_api_versions()
        answers = answers_in(outcomes)
        silent = silent_brokers(admin, outcomes)
    if output is Output.JSON:
        print_json([_as_json(broker, answer) for broker, answer in sorted(answers.items())])
    else:
        _print_table(answers)
    end_without(silent, "its versions")


def _print_table(answers: Mapping[int, ApiVersionsResponse]) -> None:
    columns: dict[tuple[tuple[int, str], ...], list[int]] = {}
    for broker, answer in sorted(answers.items()):
        versions = ((each.api_key, f"{each.min_version}-{each.max_version}") for each in answer.api_keys)
        columns.setdefault(tuple(versions), []).append(broker)
    served = [dict(each) for each in columns]
    all_keys = sorted({key for each in served for key in each})
    titles = [f"BROKER{'S' if len(brokers) > 1 else ''} {joined(brokers)}" for brokers in columns.values()]
    rows = [(_name(key), key, *(each.get(key, NOT_SERVED) for each in served)) for key in all_keys]
    print_columns(("API", "KEY", *titles), rows)


def _name(api_key: int) -> str:
    """Return Kafka's name of the API; an API that only a newer broker knows has none here."""
    from kraft.wire.api_keys import ApiKey, request_type

    try:
        return request_type(ApiKey(api_key)).__name__.removesuffix("Request")
    except ValueError:
        return "unknown"


def _as_json(broker: int, answer: ApiVersionsResponse) -> dict[str, Any]:
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    return {
        "broker": broker,
        "apis": [
            {
                "api": _name(each.api_key),
                "key": each.api_key,
                "min_version": each.min_version,
                "max_version": each.max_version,
            }
            for each in answer.api_keys
        ],
        "features": [
            {
                "feature": each.name,
                "min_level": each.min_version,
                "max_level": each.max_version,
                "finalized_level": levels.get(each.name, 0),
            }
            for each in answer.supported_features
        ],
    }
