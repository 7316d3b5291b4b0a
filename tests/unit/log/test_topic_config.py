from __future__ import annotations

from dataclasses import fields
from typing import get_origin, get_type_hints

import pytest

from kraft.log.format.compression import Codec, compress, decompress
from kraft.log.topic_config import KAFKA_DEFAULTS, SERVER_KEYS, TOPIC_CONFIGS, TopicConfig
from kraft.metadata.configs import NOT_SUPPORTED_YET, checked, text_in_effect
from kraft.model.config_types import text_of


def test_every_key_has_a_field_of_its_type_a_server_key_and_a_default_that_is_allowed() -> None:
    assert [field.name for field in fields(TopicConfig)] == [each.field_name for each in TOPIC_CONFIGS.values()]
    hints = get_type_hints(TopicConfig)
    for (key, declared), hint in zip(TOPIC_CONFIGS.items(), hints.values(), strict=True):
        default = declared.kind.read(declared.default)
        assert isinstance(default, get_origin(hint) or hint), key
        assert declared.default == text_of(default) == text_in_effect(KAFKA_DEFAULTS, key)
        assert declared.documentation
        # Names of one topic's replicas mean nothing for another.
        assert bool(declared.server_keys) is not key.endswith(".replication.throttled.replicas")
    assert not NOT_SUPPORTED_YET & TOPIC_CONFIGS.keys()


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("segment.bytes", ("log.segment.bytes", "1073741824")),
        ("retention.ms", ("log.retention.hours", "168")),
        ("segment.jitter.ms", ("log.roll.jitter.hours", "0")),
        ("flush.ms", ("log.flush.interval.ms", "9223372036854775807")),
    ],
)
def test_a_default_is_described_under_kafkas_key(key: str, expected: tuple[str, str]) -> None:
    assert TOPIC_CONFIGS[key].default_server_key() == expected


def test_no_two_topic_configs_share_a_server_key() -> None:
    assert len(SERVER_KEYS) == sum(len(declared.server_keys) for declared in TOPIC_CONFIGS.values())


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"segment_bytes": 60}, "segment.bytes"),
        ({"min_cleanable_dirty_ratio": 1.1}, "min.cleanable.dirty.ratio"),
        ({"cleanup_policy": ("delete", "compress")}, "cleanup.policy"),
        ({"cleanup_policy": "delete"}, "cleanup.policy"),
        ({"preallocate": 1}, "preallocate"),
    ],
)
def test_a_value_that_no_topic_may_have_is_refused(values: dict[str, object], key: str) -> None:
    with pytest.raises(ValueError, match=f"{key} is .*, expected"):
        TopicConfig(**values)  # type: ignore[arg-type]  # They are of the wrong type, or out of bounds.


@pytest.mark.parametrize(
    ("policy", "deletes", "compacts"),
    [
        ("delete", True, False),
        ("compact", False, True),
        ("compact,delete", True, True),
        ("delete, compact", True, True),
        ("", False, False),
    ],
)
def test_a_cleanup_policy_says_what_is_done_to_old_records(policy: str, deletes: bool, compacts: bool) -> None:
    config = checked(KAFKA_DEFAULTS, {"cleanup.policy": policy})
    assert (config.deletes, config.compacts) == (deletes, compacts)


@pytest.mark.parametrize(
    ("configs", "codec", "level"),
    [
        ({"compression.type": "producer", "compression.gzip.level": "1"}, None, None),
        ({"compression.type": "uncompressed"}, Codec.NONE, None),
        ({"compression.type": "gzip"}, Codec.GZIP, -1),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, Codec.GZIP, 9),
        ({"compression.type": "snappy", "compression.zstd.level": "1"}, Codec.SNAPPY, None),
        ({"compression.type": "lz4", "compression.lz4.level": "17"}, Codec.LZ4, 17),
        ({"compression.type": "zstd", "compression.zstd.level": "-131072"}, Codec.ZSTD, -131_072),
        ({"compression.type": "zstd", "compression.zstd.level": "22"}, Codec.ZSTD, 22),
    ],
)
def test_a_compression_type_has_its_own_level(configs: dict[str, str], codec: Codec | None, level: int | None) -> None:
    config = checked(KAFKA_DEFAULTS, configs)
    assert (config.compression, config.compression_level) == (codec, level)
    if codec is not None:
        assert decompress(codec, compress(codec, b"some records " * 99, level)) == b"some records " * 99
