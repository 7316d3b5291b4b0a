"""A metadata image as directories and files. Nothing is made before somebody looks at it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict

from kraft.cli.metadata_shell.loading import LoadedMetadata
from kraft.metadata.image import MetadataImage, TopicImage
from kraft.model.access import words

File = Callable[[], Any]
"""Returns the content, as JSON types."""


class Directory(Struct, frozen=True):
    """Entries by name; `entries` makes them."""

    entries: Callable[[], Mapping[str, Node]]


Node: TypeAlias = "Directory | File"


def root_of(loaded: LoadedMetadata) -> Directory:
    """Return the root directory."""
    image = loaded.image
    return Directory(
        lambda: {
            "acls": Directory(lambda: _acls(image)),
            "brokers": Directory(lambda: _files({str(each): found for each, found in sorted(image.brokers.items())})),
            "cluster": lambda: {
                "id": image.cluster_id,
                "next_broker_epoch": image.next_broker_epoch,
                "next_producer_id": image.next_producer_id,
            },
            "configs": Directory(
                lambda: {
                    "brokers": _configs(image.broker_configs, "all-brokers"),
                    "client-metrics": _configs(image.client_metrics, "all-client-metrics"),
                    "groups": _configs(image.group_configs, "all-groups"),
                }
            ),
            "features": _value(dict(sorted(image.features.items()))),
            "log": lambda: {"index": loaded.index, "last_entries_may_be_uncommitted": loaded.has_journal},
            "quotas": lambda: [
                {"entity": _plain(subject), "quotas": dict(quotas)} for subject, quotas in image.client_quotas.items()
            ],
            "topic-ids": Directory(lambda: _files({str(each): name for name, each in sorted(image.topic_ids.items())})),
            "topics": Directory(
                lambda: {name: _topic(image.topics[topic_id]) for name, topic_id in sorted(image.topic_ids.items())}
            ),
            "users": Directory(lambda: _users(image)),
        }
    )


def text_of(file: File) -> str:
    """Return the content of a file, for people and programs."""
    content = file()
    return content if isinstance(content, str) else json.dumps(content, indent=2)


def _topic(topic: TopicImage) -> Directory:
    return Directory(
        lambda: {
            "configs": _value(dict(sorted(topic.configs.items()))),
            "id": _value(str(topic.topic_id)),
            "partitions": Directory(
                lambda: _files({str(number): found for number, found in sorted(topic.partitions.items())})
            ),
        }
    )


def _configs(configs: Mapping[str, Mapping[str, str]], of_all: str) -> Directory:
    """The configs under the empty name apply to all."""
    return Directory(lambda: _files({name or of_all: found for name, found in sorted(configs.items())}))


def _users(image: MetadataImage) -> Mapping[str, Node]:
    # What is kept of a password stays where it is: whoever has it can try passwords.
    mechanisms = {
        name: [{"mechanism": each.value, "iterations": found.iterations} for each, found in of_user.items()]
        for name, of_user in sorted(image.users.by_name.items())
    }
    return _files(mechanisms)


def _acls(image: MetadataImage) -> Mapping[str, Node]:
    by_type: dict[str, dict[str, list[dict[str, str]]]] = {}
    for each in image.acls:
        pattern = f"{each.resource_name} ({words(each.pattern_type)})"
        fields = {
            "permission": words(each.permission),
            "principal": each.principal,
            "operation": words(each.operation),
            "host": each.host,
        }
        by_type.setdefault(words(each.resource_type), {}).setdefault(pattern, []).append(fields)
    return {kind: _of_type(by_type[kind]) for kind in sorted(by_type)}


def _of_type(entries: Mapping[str, Any]) -> Directory:
    return Directory(lambda: _files(dict(sorted(entries.items()))))


def _files(contents: Mapping[str, Any]) -> Mapping[str, Node]:
    return {name: _value(content) for name, content in contents.items()}


def _value(value: Any) -> File:
    return lambda: _plain(value)


def _plain(value: Any) -> Any:
    """Return the value as JSON types."""
    if isinstance(value, Struct):
        return {name: _plain(field) for name, field in asdict(value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def walk(path: str, node: Node) -> Iterator[tuple[str, Node]]:
    """Yield a node and all below it, each with its path."""
    yield path, node
    if isinstance(node, Directory):
        for name, each in node.entries().items():
            yield from walk(f"{path.rstrip('/')}/{name}", each)
