"""FastMCP's proxy at its best: one shared client to one process, JSON answers, no sessions."""

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy


async def main(port: int, mode: str, command: list[str]) -> None:
    client = Client(StdioTransport(command=command[0], args=command[1:]), mode=mode)
    async with client:
        proxy = create_proxy(client, name="proxy")
        await proxy.run_http_async(
            show_banner=False,
            transport="http",
            host="127.0.0.1",
            port=port,
            path="/mcp",
            log_level="error",
            json_response=True,
            stateless_http=True,
        )


asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
