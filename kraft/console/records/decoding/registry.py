"""A schema registry with Confluent's HTTP API, and the schemas that it gave, in memory.

Its address is only in the console's file. Every question to it is bounded, and how many there are, too: ids come from
records, and whoever writes records could name a million of them.
"""

from __future__ import annotations

import base64
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from kraft.console.records.decoding.avro_schemas import ReadValue, avro_schema
from kraft.console.records.decoding.limits import CannotDecode, json_value
from kraft.console.records.decoding.protobuf_schemas import ProtobufSchema
from kraft.fetching.bounded_http import HttpAnswer, HttpFailed, HttpRequest, fetch
from kraft.model.password import Password
from kraft.model.printable import printable
from kraft.tls.contexts import client_context
from kraft.tls.store_files import StoreError
from kraft.tls.stores import TlsSettings

ANSWER_S: Final = 1.5
"""Longest wait for one schema, with all that it refers to; half of what a page waits for its records."""

ANSWER_BYTES_MAX: Final = 2 << 20
SCHEMAS_MAX: Final = 500
"""Schemas that are kept, those that were used last."""

REFERENCES_MAX: Final = 32
ASKED_MAX: Final = 40
ASKED_WITHIN_S: Final = 10.0
"""Questions to a registry in that time."""

FAILED_S: Final = 10.0
"""How long a registry that did not answer, or a schema that it does not have, is not asked for again."""

_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"


class RegistryConfig(Struct, frozen=True, kw_only=True):
    """Where the registry is, and how the console logs in there."""

    url: str
    user: str = ""
    password: Password = Password("")
    tls: TlsSettings | None = None


class JsonSchema(Struct, frozen=True):
    """Values are JSON; they are not checked by the schema."""


Schema = ReadValue | ProtobufSchema | JsonSchema


class _Reference(Struct, frozen=True):
    name: str
    subject: str
    version: int


class _Registered(Struct, frozen=True, rename={"schema_type": "schemaType"}):
    schema: str
    schema_type: str = "AVRO"
    references: list[_Reference] = []


class Registry:
    """May be used from any thread; it is asked by one at a time."""

    def __init__(self, config: RegistryConfig, now_s: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._context: ssl.SSLContext | None = None
        self._now_s = now_s
        self._turn = threading.Lock()
        self._known: OrderedDict[int, Schema] = OrderedDict()
        self._refused: OrderedDict[int, tuple[float, str]] = OrderedDict()
        self._away: tuple[float, str] | None = None
        self._asked_s: list[float] = []
        self._until_s = 0.0

    def schema(self, schema_id: int) -> Schema:
        """Return the schema, which is asked for at most once. It blocks. Raises CannotDecode."""
        # What is known needs no turn; what is not waits while the registry is asked for another one.
        known = self._known.get(schema_id)
        if known is not None:
            return known
        if not self._turn.acquire(timeout=ANSWER_S):
            raise CannotDecode("the schema registry is being asked for other schemas: load the page again")
        try:
            return self._found(schema_id)
        finally:
            self._turn.release()

    def _found(self, schema_id: int) -> Schema:
        known = self._known.get(schema_id)
        if known is not None:
            self._known.move_to_end(schema_id)
            return known
        for failed in (self._refused.get(schema_id), self._away):
            if failed is not None and self._now_s() - failed[0] < FAILED_S:
                raise CannotDecode(failed[1])
        try:
            found = self._asked_for(schema_id)
        except CannotDecode as error:
            self._refused[schema_id] = (self._now_s(), str(error))
            while len(self._refused) > SCHEMAS_MAX:
                self._refused.popitem(last=False)
            raise
        self._known[schema_id] = found
        while len(self._known) > SCHEMAS_MAX:
            self._known.popitem(last=False)
        return found

    def _asked_for(self, schema_id: int) -> Schema:
        self._until_s = self._now_s() + ANSWER_S
        path = f"/schemas/ids/{schema_id}"
        registered = self._registered(path)
        match registered.schema_type:
            case "AVRO":
                return avro_schema(registered.schema, list(self._references(registered, "").values()))
            case "PROTOBUF":
                compiled = self._registered(f"{path}?format=serialized")
                return ProtobufSchema(compiled.schema, self._references(registered, "?format=serialized"))
            case "JSON":
                return JsonSchema()
            case other:
                kind = printable(other[:40])
                raise CannotDecode(f"schema {schema_id} is of type {kind}, which is not supported")

    def _references(self, registered: _Registered, end: str) -> dict[str, str]:
        """Return the schemas that this one uses, by name, those first that others use."""
        found: dict[str, str] = {}
        asked: set[str] = set()

        def add(references: list[_Reference]) -> None:
            for each in references:
                if each.name in asked:
                    continue
                asked.add(each.name)
                if len(asked) > REFERENCES_MAX:
                    raise CannotDecode(f"the schema refers to more than {REFERENCES_MAX} others")
                schema = self._registered(f"/subjects/{quote(each.subject, safe='')}/versions/{each.version}{end}")
                add(schema.references)
                found[each.name] = schema.schema

        add(registered.references)
        return found

    def _registered(self, path: str) -> _Registered:
        answer = self._answer(path)
        if answer.status != 200:
            raise CannotDecode(f"the schema registry has no answer to {path}: {_reason(answer)}")
        try:
            return msgspec.json.decode(answer.body, type=_Registered)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise CannotDecode(f"the schema registry answers to {path} with something else than a schema") from None

    def _answer(self, path: str) -> HttpAnswer:
        now_s = self._now_s()
        self._asked_s = [each for each in self._asked_s if now_s - each < ASKED_WITHIN_S]
        if len(self._asked_s) >= ASKED_MAX:
            raise CannotDecode(
                f"these records name too many schemas: the registry is asked {ASKED_MAX} times in {ASKED_WITHIN_S:g} s"
            )
        self._asked_s.append(now_s)
        headers = {"Accept": _ACCEPT}
        if self._config.user:
            login = f"{self._config.user}:{self._config.password.text}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        try:
            if self._context is None and self._config.tls is not None:
                self._context = client_context(self._config.tls)
            request = HttpRequest(url=self._config.url.rstrip("/") + path, headers=headers)
            return fetch(request, self._context, ANSWER_BYTES_MAX, max(self._until_s - now_s, 0.01))
        except (HttpFailed, StoreError) as error:
            problem = f"the schema registry of this cluster cannot be asked: {printable(str(error))}"
            self._away = (self._now_s(), problem)
            raise CannotDecode(problem) from None


class Registries:
    """One for each cluster that has one."""

    def __init__(self) -> None:
        self._by_cluster: dict[str, Registry] = {}

    def of(self, cluster: str, config: RegistryConfig | None) -> Registry | None:
        """Return the registry of the cluster, with what it said before."""
        if config is None:
            return None
        if cluster not in self._by_cluster:
            self._by_cluster[cluster] = Registry(config)
        return self._by_cluster[cluster]


def _reason(answer: HttpAnswer) -> str:
    """Return what a status says; the registry's own text where it has one."""
    if answer.status in (401, 403):
        return f"it refuses the console's login ({answer.status}); set schema.registry.basic.auth.user.info"
    if 300 <= answer.status < 400:
        return f"it leads elsewhere ({answer.status}), where the console does not go; set schema.registry.url to there"
    try:
        text = printable(str(json_value(answer.body)["message"]))[:200]
    except (CannotDecode, KeyError, TypeError):
        text = "no reason given"
    return f"{text} ({answer.status})"
