"""`python -m benchmarks.uncounted_node FILE`: a node that counts nothing where records pass, for a comparison.

Statements that add to a counter are left out when the modules are compiled, and what times requests does nothing.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, Final

from kraft.server.kafka_listener.request_times import ApiTimes
from kraft.server.replica.counts import BrokerCounts, TopicCounts

COUNTERS: Final = frozenset({*BrokerCounts.__slots__, *TopicCounts.__slots__, *ApiTimes.__slots__}) - {
    "count",
    "replicas",
}
FILES: Final = ("handlers/produce", "handlers/fetch", "handlers/replica_fetch", "replica/partition", "replica/fetcher")


class _WithoutCounters(ast.NodeTransformer):
    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        is_counter = isinstance(node.target, ast.Attribute) and node.target.attr in COUNTERS
        return ast.copy_location(ast.Pass(), node) if is_counter else node


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = _WithoutCounters().visit(ast.parse(self.get_data(path)))
        return compile(tree, path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None and spec.origin.endswith(tuple(f"{each}.py" for each in FILES)):
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def _stop_timing() -> None:
    from kraft.server.apis import timed_calls
    from kraft.server.kafka_listener import connection
    from kraft.server.kafka_listener.request_times import ApiTimes, TimedRequest

    one = TimedRequest(ApiTimes(), 0, 0.0, 0.0, 0.0)

    class Stages:
        def __init__(self, *_: object) -> None:
            self.arrived_s = 0.0

        def begun(self, *_: object) -> TimedRequest:
            return one

        def waited(self, *_: object) -> None: ...

        def is_sent_next(self, _: object) -> None: ...

        def sent(self) -> tuple[()]:
            return ()

    changed: Any = connection
    changed.RequestStages = Stages
    changed = timed_calls
    changed.timed = lambda _, handler, __: handler


def main() -> None:
    for name in [each for each in sys.modules if each.startswith("kraft.server")]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder())
    _stop_timing()
    from kraft.cli.main import main as kraft

    sys.argv = ["kraft", "server", "start", "-c", sys.argv[1]]
    kraft()


if __name__ == "__main__":
    main()
