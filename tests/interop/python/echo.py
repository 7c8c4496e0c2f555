"""A server on the Python SDK 2.x: `echo.py`, over stdio, or `echo.py http|sse PORT`. It speaks both eras: the client's opening decides."""

import sys
from typing import Annotated

import anyio
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, MCPServer, Resolve
from mcp.server.streamable_http import EventMessage, EventStore
from mcp_types import EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams
from pydantic import BaseModel

server = MCPServer("echo-python")
counts = {"cancelled": 0}
NOTE = "memo://note"
subscribed = set()


@server.tool(structured_output=False)
def echo(message: str) -> str:
    """Says the message back."""
    return message


@server.tool(structured_output=False)
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


class Who(BaseModel):
    name: str


class Events(EventStore):
    """Events are numbered through; a stream is resumed after one of its own."""

    def __init__(self):
        self.all = []

    async def store_event(self, stream_id, message):
        self.all.append((stream_id, message))
        return str(len(self.all))

    async def replay_events_after(self, last_event_id, send_callback):
        last = int(last_event_id)
        stream = self.all[last - 1][0]
        for number, (of, message) in enumerate(self.all[last:], last + 1):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def add_features():
    async def steps(count: int, context: Context) -> str:
        for step in range(1, count + 1):
            await context.report_progress(step)
        return "done"

    async def sleep(ms: int) -> str:
        try:
            await anyio.sleep(ms / 1000)
        except anyio.get_cancelled_exc_class():
            counts["cancelled"] += 1
            raise
        return "slept"

    def cancelled() -> str:
        return str(counts["cancelled"])

    # The SDK asks as the client's era wants: with a request of its own, or with the call's result.
    async def who() -> Elicit[Who]:
        return Elicit("Who are you?", Who)

    async def ask(answer: Annotated[ElicitationResult[Who], Resolve(who)]) -> str:
        return f"{answer.action} {answer.data.name}" if answer.action == "accept" else answer.action

    async def change(context: Context) -> str:
        server.add_tool(lambda: "extra", name="extra")
        if is_modern(context):
            await context.notify_tools_changed()
        else:
            await context.session.send_tool_list_changed()
        return "changed"

    async def touch(context: Context) -> str:
        if is_modern(context):
            await context.notify_resource_updated(NOTE)
        elif NOTE in subscribed:
            await context.session.send_resource_updated(NOTE)
        return "touched"

    async def leave(context: Context) -> str:
        await anyio.sleep(0.05)  # the event that the client comes back with goes out beside this call
        await context.close_sse_stream()
        await anyio.sleep(0.1)
        return "came back"

    for tool in [steps, sleep, cancelled, ask, change, touch, leave]:
        server.add_tool(tool, structured_output=False)
    server.resource(NOTE, name="note")(lambda: "A note.")
    watch_resources()


def is_modern(context):
    return context.protocol_version >= "2026-07-28"


def watch_resources():
    """`MCPServer` has no place for these two of the older revisions, but what it is made of has."""

    async def subscribe(_context, params):
        subscribed.add(str(params.uri))
        return EmptyResult()

    async def unsubscribe(_context, params):
        subscribed.discard(str(params.uri))
        return EmptyResult()

    add = server._lowlevel_server.add_request_handler
    add("resources/subscribe", SubscribeRequestParams, subscribe)
    add("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["http", port]:
            add_features()
            server.run("streamable-http", port=int(port), event_store=Events(), retry_interval=50)
        case ["sse", port]:
            add_features()
            server.run("sse", port=int(port))
        case _:
            server.run()
