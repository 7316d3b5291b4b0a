"""Stands in for the `kraft` command where only the process matters: listens, answers Metadata, and obeys or does not.

`broker.rack` in its configuration says how it misbehaves: `refuses`, `ignores-sigterm`, `fails-at-stop`, `lonely`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import grpc.aio

from kraft.local import cluster_files
from kraft.rpc.calls import METADATA
from kraft.rpc.services import SERVER_OPTIONS, Service
from kraft.server.config.loading import load
from kraft.server.config.node_config import NodeConfig
from kraft.server.process import lifeline
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker


async def answer_metadata(config: NodeConfig) -> MetadataResponse:
    known = [config] if config.rack == "lonely" else cluster_files.read(config.file.parent)
    endpoints = tuple(
        MetadataResponseBroker(node_id=node.node_id, host="127.0.0.1", port=grpc.port)
        for node in known
        if (grpc := node.listener("GRPC")) is not None
    )
    return MetadataResponse(cluster_id=config.cluster_id or "", controller_id=1, brokers=endpoints, topics=())


async def serve(config: NodeConfig) -> int:
    async def metadata(_: MetadataRequest) -> MetadataResponse:
        return await answer_metadata(config)

    server = grpc.aio.server(options=SERVER_OPTIONS)
    Service(METADATA.served_by(metadata)).add_to(server)
    for listener in config.listeners:
        server.add_insecure_port(listener.address)
    await server.start()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    if config.rack == "ignores-sigterm":
        print("not now", flush=True)
        await asyncio.sleep(60)
    await server.stop(grace=0)
    return 3 if config.rack == "fails-at-stop" else 0


def main() -> int:
    lifeline.follow_launcher()
    config = load(Path(sys.argv[sys.argv.index("-c") + 1]))
    if config.rack == "refuses":
        print(f"kraft: node {config.node_id} does not feel like it", file=sys.stderr)
        return 1
    print(f"node {config.node_id} is up", flush=True)
    return asyncio.run(serve(config))


if __name__ == "__main__":
    sys.exit(main())
