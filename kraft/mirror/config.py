"""The file of `kraft mirror`: MirrorMaker 2's keys, checked, frozen. All that is wrong with it is told at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any, Final, TypeVar

from msgspec import Struct

from kraft.client.model.errors import InvalidSetting, NotSupportedYet
from kraft.client.model.settings import AdminSettings, ConsumerSettings, ProducerSettings, settings_of
from kraft.mirror import file_keys
from kraft.mirror.naming import Naming, cycle_in
from kraft.mirror.patterns import Chosen, InvalidPattern, patterns, plain_list
from kraft.model.errors import KraftError

_ALIAS: Final = re.compile(r"[A-Za-z0-9_-]{1,60}")
_SEPARATOR: Final = re.compile(r"[A-Za-z0-9._-]{1,60}")
_PAIR: Final = re.compile(r"(?P<source>[A-Za-z0-9_-]+)->(?P<target>[A-Za-z0-9_-]+)\.(?P<key>.+)")
_POLICIES: Final = {"DefaultReplicationPolicy": True, "IdentityReplicationPolicy": False}
"""Whether the alias of the source stands in front of the names."""
_INT_MAX: Final = 2**31 - 1
_OWN_CLIENT_SETTINGS: Final = frozenset(
    {"group.id", "group.instance.id", "transactional.id", "enable.auto.commit", "isolation.level", "acks"}
)

Value = TypeVar("Value")


class InvalidMirrorFile(KraftError):
    """The file cannot be used; each problem is one line, with the remedy."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class ClusterConfig(Struct, frozen=True, kw_only=True):
    """One cluster: how clients reach it, by the kind of client."""

    alias: str
    consumer: Mapping[str, str]
    producer: Mapping[str, str]
    admin: Mapping[str, str]


class PairConfig(Struct, frozen=True, kw_only=True):
    """What is mirrored from one cluster to another, and how."""

    source: ClusterConfig
    target: ClusterConfig
    naming: Naming
    topics: Chosen
    groups: Chosen
    replication_factor: int
    positions_replication_factor: int
    refresh_s: int
    syncs_configs: bool
    syncs_acls: bool
    syncs_groups: bool
    groups_interval_s: int
    configs_left_out: Chosen
    exactly_once: bool | None
    """None: where the target can."""

    commit_interval_ms: int
    throttle_bytes: int
    """Bytes a second of one worker; 0 is no limit."""

    shards: int
    """Parts that workers share among them."""

    @property
    def name(self) -> str:
        return f"{self.source.alias}->{self.target.alias}"


class MirrorConfig(Struct, frozen=True, kw_only=True):
    """The whole file."""

    name: str
    pairs: tuple[PairConfig, ...]
    metrics_address: str
    notes: tuple[str, ...]
    """Keys that were read and have no effect, with the reason."""


def mirror_config(settings: Mapping[str, str]) -> MirrorConfig:
    """Return the configuration. Raises InvalidMirrorFile."""
    return _Reader(settings).read()


class _Reader:
    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._problems: list[str] = []
        self._notes: list[str] = []
        self._aliases = list(plain_list(settings.get("clusters", "")))
        self._of_cluster: dict[str, dict[str, str]] = {each: {} for each in self._aliases}
        self._of_pair: dict[tuple[str, str], dict[str, str]] = {}
        self._of_all: dict[str, str] = {}
        self._of_clients: dict[str, str] = {}

    def read(self) -> MirrorConfig:
        if not self._aliases:
            old = [each for each in ("whitelist", "consumer.config", "producer.config") if each in self._settings]
            said = f"{old[0]} {file_keys.MIRRORMAKER_1}" if old else "clusters is missing: name them, as clusters=A, B"
            raise InvalidMirrorFile([said])
        for alias in self._aliases:
            if not _ALIAS.fullmatch(alias):
                self._problems.append(f"clusters: {alias!r} is no alias: use letters, digits, - and _")
        for key, value in self._settings.items():
            self._sort(key, value)
        clusters = {each: self._cluster(each) for each in self._aliases}
        enabled = [each for each in self._of_pair if self._flag(each, "enabled")]
        if not enabled:
            self._problems.append("no pair is enabled: set A->B.enabled=true, with your aliases")
        pairs = [self._pair(clusters[source], clusters[target]) for source, target in enabled]
        self._check_cycles(pairs)
        self._check_merged_groups(pairs)
        if self._problems:
            raise InvalidMirrorFile(self._problems)
        return MirrorConfig(
            name=self._settings.get("name", "kraft-mirror"),
            pairs=tuple(pairs),
            metrics_address=self._settings.get("metrics.address", ""),
            notes=tuple(self._notes),
        )

    # --- keys -------------------------------------------------------------------------------------------------

    def _sort(self, key: str, value: str) -> None:
        if found := _PAIR.fullmatch(key):
            self._sort_pair(key, found, value)
            return
        alias, _, rest = key.partition(".")
        if alias in self._of_cluster and rest:
            self._sort_cluster(key, alias, rest, value)
        elif file_keys.SHARED_CLIENT_KEYS.fullmatch(key):
            self._of_clients[key] = value
        elif key not in file_keys.OWN_KEYS:
            self._sort_known(key, key, value, self._of_all)

    def _sort_cluster(self, key: str, alias: str, rest: str, value: str) -> None:
        if rest == "exactly.once.source.support":
            for pair in self._pairs_to(alias):
                self._of_pair.setdefault(pair, {}).setdefault(rest, value)
        elif (said := file_keys.note(rest)) is not None:
            self._notes.append(f"{key} has no effect: {said}")
        else:
            self._of_cluster[alias][rest] = value

    def _pairs_to(self, alias: str) -> list[tuple[str, str]]:
        found = (_PAIR.fullmatch(key) for key in self._settings)
        return [(each["source"], each["target"]) for each in found if each and each["target"] == alias]

    def _sort_pair(self, key: str, found: re.Match[str], value: str) -> None:
        pair = found["source"], found["target"]
        for alias in pair:
            if alias not in self._of_cluster:
                self._problems.append(f"{key}: clusters does not name {alias}")
                return
        if pair[0] == pair[1]:
            self._problems.append(f"{key}: a cluster is not mirrored into itself")
            return
        self._sort_known(key, found["key"], value, self._of_pair.setdefault(pair, {}))

    def _sort_known(self, key: str, name: str, value: str, kept: dict[str, str]) -> None:
        name = file_keys.OLD_NAMES.get(name, name)
        if name in file_keys.PAIR_KEYS:
            kept[name] = value
        elif (said := file_keys.note(name)) is not None:
            self._notes.append(f"{key} has no effect: {said}")
        else:
            self._problems.append(f"{key} {file_keys.refusal(name)}")

    # --- values -----------------------------------------------------------------------------------------------

    def _value(self, pair: tuple[str, str], key: str) -> str:
        given = self._of_pair.get(pair, {}).get(key, self._of_all.get(key))
        return file_keys.PAIR_KEYS[key] if given is None else given.strip()

    def _flag(self, pair: tuple[str, str], key: str) -> bool:
        return self._parsed(pair, key, _truth, "true or false")

    def _number(self, pair: tuple[str, str], key: str, lowest: int, highest: int = _INT_MAX) -> int:
        def number(text: str) -> int:
            if not lowest <= int(text) <= highest:
                raise ValueError
            return int(text)

        return self._parsed(pair, key, number, f"a number from {lowest} to {highest}")

    def _parsed(self, pair: tuple[str, str], key: str, parse: Callable[[str], Value], wanted: str) -> Value:
        text = self._value(pair, key)
        try:
            return parse(text)
        except ValueError:
            self._problems.append(f"{pair[0]}->{pair[1]}: {key}={text} is not {wanted}")
            return parse(file_keys.PAIR_KEYS[key])

    def _chosen(self, pair: tuple[str, str], taken: str, left_out: str = "") -> Chosen:
        found = []
        for key in (taken, left_out):
            try:
                found.append(patterns(self._value(pair, key)) if key else ())
            except InvalidPattern as error:
                self._problems.append(f"{pair[0]}->{pair[1]}: {key}: {error}")
                found.append(())
        return Chosen(taken=found[0], left_out=found[1])

    def _cluster(self, alias: str) -> ClusterConfig:
        of_alias = self._of_cluster[alias]
        if not of_alias.get("bootstrap.servers", "").strip():
            self._problems.append(f"{alias}.bootstrap.servers is missing: give HOST:PORT[,HOST:PORT...]")
        kinds: dict[str, dict[str, str]] = {}
        for kind, checked in (("consumer", ConsumerSettings), ("producer", ProducerSettings), ("admin", AdminSettings)):
            every = {**self._of_clients, **of_alias}
            given = {key: value for key, value in every.items() if not file_keys.is_client_prefix(key)}
            prefix = f"{kind}."
            own = {key.removeprefix(prefix): value for key, value in every.items() if key.startswith(prefix)}
            for key in sorted(own.keys() & _OWN_CLIENT_SETTINGS):
                self._problems.append(f"{alias}.{kind}.{key} is set by the mirror itself: remove it")
            kinds[kind] = {**given, **own}
            self._check_client(alias, checked, kinds[kind])
        return ClusterConfig(alias=alias, **kinds)

    def _check_client(self, alias: str, kind: type[Any], given: dict[str, str]) -> None:
        try:
            settings_of(kind, given.get("bootstrap.servers") or "unset", given)
        except (InvalidSetting, NotSupportedYet) as error:
            said = f"{alias}: {error}"
            if said not in self._problems and given.get("bootstrap.servers"):
                self._problems.append(said)

    def _pair(self, source: ClusterConfig, target: ClusterConfig) -> PairConfig:
        pair = source.alias, target.alias
        policy = self._value(pair, "replication.policy.class").rpartition(".")[2]
        if policy not in _POLICIES:
            self._problems.append(
                f"{pair[0]}->{pair[1]}: replication.policy.class={policy} is not one of {', '.join(_POLICIES)}"
            )
        naming = Naming(
            source=pair[0],
            target=pair[1],
            prefixed=_POLICIES.get(policy, True),
            separator=self._parsed(pair, "replication.policy.separator", _separator, "letters, digits, ., - and _"),
        )
        return PairConfig(
            source=source,
            target=target,
            naming=naming,
            topics=self._chosen(pair, "topics", "topics.exclude"),
            groups=self._chosen(pair, "groups", "groups.exclude"),
            replication_factor=self._number(pair, "replication.factor", -1, 32_767),
            positions_replication_factor=self._number(pair, "offset-syncs.topic.replication.factor", -1, 32_767),
            refresh_s=self._number(pair, "refresh.topics.interval.seconds", 1),
            syncs_configs=self._flag(pair, "sync.topic.configs.enabled"),
            syncs_acls=self._flag(pair, "sync.topic.acls.enabled"),
            syncs_groups=self._flag(pair, "sync.group.offsets.enabled"),
            groups_interval_s=self._number(pair, "sync.group.offsets.interval.seconds", 1),
            configs_left_out=self._chosen(pair, "config.properties.exclude"),
            exactly_once=self._parsed(pair, "exactly.once.source.support", _support, "enabled or disabled"),
            commit_interval_ms=self._number(pair, "offset.flush.interval.ms", 1, 60_000),
            throttle_bytes=self._number(pair, "throttle.bytes.per.second", 0, 2**62),
            shards=self._number(pair, "tasks.max", 1, 1_000),
        )

    def _check_cycles(self, pairs: list[PairConfig]) -> None:
        """Refuse records that would go around: with a prefix, names show where a topic came from."""
        chosen = {(each.source.alias, each.target.alias): each.topics for each in pairs if not each.naming.prefixed}
        if found := cycle_in(list(chosen), lambda one, other: chosen[one].is_apart(chosen[other])):
            self._problems.append(
                f"{' -> '.join(found)} is a cycle of topics with the same names, in which records go around for ever: "
                "choose topics that have no name in common, disable one of these pairs, or use "
                "replication.policy.class=DefaultReplicationPolicy"
            )

    def _check_merged_groups(self, pairs: list[PairConfig]) -> None:
        """Refuse offsets of a group in a topic that several sources fill: those of one would skip records of others."""
        for one, other in combinations((each for each in pairs if not each.naming.prefixed), 2):
            carrying = [each for each in (one, other) if each.syncs_groups]
            is_merged = one.target.alias == other.target.alias and not one.topics.is_apart(other.topics)
            if is_merged and carrying:
                self._problems.append(
                    f"{one.name} and {other.name} fill topics of the same names, in which a group that goes on where "
                    "it was at one source misses records of the other: set "
                    f"{' and '.join(f'{each.name}.sync.group.offsets.enabled=false' for each in carrying)}, choose "
                    "topics that have no name in common, or use "
                    "replication.policy.class=DefaultReplicationPolicy"
                )


def _separator(text: str) -> str:
    if not _SEPARATOR.fullmatch(text):
        raise ValueError(text)
    return text


def _truth(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.lower()]
    except KeyError:
        raise ValueError(text) from None


def _support(text: str) -> bool | None:
    try:
        return {"enabled": True, "true": True, "disabled": False, "false": False, "preparing": None, "": None}[
            text.lower()
        ]
    except KeyError:
        raise ValueError(text) from None
