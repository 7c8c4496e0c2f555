"""The conformance suite's server on the Python SDK 2.x: `reference.py`, over stdio, or `reference.py http`, which says its URL.

It speaks both eras: the client's opening decides. With `legacy` or `modern` it speaks only the older or the newer.
"""

import base64
import socket
import sys
import warnings
from typing import Annotated

import anyio
import mcp_types as types
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.tools import Tool
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from echo import Events, is_modern

warnings.simplefilter("ignore", MCPDeprecationWarning)

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
IMAGE = types.ImageContent(data=PNG, mime_type="image/png")
JSON_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def text(it):
    return types.TextContent(text=it)


def embedded(uri, mime_type, it):
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=it))


# Each kind of content.
CONTENTS = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [types.AudioContent(data=WAV, mime_type="audio/wav")],
    "test_embedded_resource": [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
}


def elicit(message, properties, required=()):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def field(name):
    return elicit(f"What is your {name}?", {name: {"type": "string"}}, [name])


def sample(prompt):
    messages = [types.SamplingMessage(role="user", content=text(prompt))]
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=messages, max_tokens=100))


ROOTS = types.ListRootsRequest()
TITLED = [{"const": f"value{i}", "title": f"{name} Option"} for i, name in enumerate(["First", "Second", "Third"], 1)]
OPTIONS = {"type": "string", "enum": ["option1", "option2", "option3"]}
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
ENUMS = {
    "untitledSingle": OPTIONS,
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
    "untitledMulti": {"type": "array", "items": OPTIONS},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}
GREETING = sample("Generate a greeting.")

# What a tool asks, round by round.
QUESTIONS = {
    "test_elicitation_sep1034_defaults": [{"form": elicit("Please review the defaults", DEFAULTS)}],
    "test_elicitation_sep1330_enums": [{"form": elicit("Please choose", ENUMS)}],
    "test_missing_capability": [{"capital": sample("Say something.")}],
    "test_streaming_elicitation": [{"user_name": field("name")}],
    "test_input_required_result_elicitation": [{"user_name": field("name")}],
    "test_input_required_result_sampling": [{"capital": sample("What is the capital of France?")}],
    "test_input_required_result_list_roots": [{"client_roots": ROOTS}],
    "test_input_required_result_request_state": [{"confirm": field("ok")}],
    "test_input_required_result_tampered_state": [{"confirm": field("ok")}],
    "test_input_required_result_multiple_inputs": [{"user_name": field("name"), "greeting": GREETING, "client_roots": ROOTS}],
    "test_input_required_result_multi_round": [{"step1": field("name")}, {"step2": field("color")}],
}
# Of these it is checked what they say.
SAYS = {
    "test_input_required_result_elicitation": lambda answers: f"Hello, {(answers['user_name'].content or {}).get('name')}!",
    "test_input_required_result_request_state": lambda answers: "state-ok",
}

RESULTS = {
    types.ElicitRequest: types.ElicitResult,
    types.CreateMessageRequest: types.CreateMessageResult,
    types.ListRootsRequest: types.ListRootsResult,
}


async def ask(context, rounds, say):
    """As the client's era wants: requests of its own in the call, or a result that asks."""
    if not is_modern(context):
        related = ServerMessageMetadata(related_request_id=context.request_id)
        answers = {
            key: await context.session.send_request(request, RESULTS[type(request)], metadata=related)
            for requests in rounds
            for key, request in requests.items()
        }
        return say(answers)
    # How many rounds were asked; the SDK seals it.
    asked = int(context.request_state or 1)
    answers = context.input_responses or {}
    if not rounds[asked - 1].keys() <= answers.keys():
        asked -= 1
    if asked == len(rounds):
        return say(answers)
    for request in rounds[asked].values():
        require(context, request)
    return types.InputRequiredResult(input_requests=rounds[asked], request_state=str(asked + 1))


NEEDS = {
    types.ElicitRequest: {"elicitation": types.ElicitationCapability()},
    types.CreateMessageRequest: {"sampling": types.SamplingCapability()},
    types.ListRootsRequest: {"roots": types.RootsCapability()},
}


def declares(context, request):
    (name,) = NEEDS[type(request)]
    return getattr(context.client_capabilities, name, None) is not None


def require(context, request):
    if not declares(context, request):
        needed = types.MissingRequiredClientCapabilityErrorData(required_capabilities=types.ClientCapabilities(**NEEDS[type(request)]))
        data = needed.model_dump(by_alias=True, mode="json", exclude_none=True)
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "the client cannot be asked this", data)


# What the two tools of this name have done to the lists.
there = {"tool": False, "prompt": False}


def user(*contents):
    return [{"role": "user", "content": content} for content in contents]


def add_tools(server):
    def tool(name, run):
        server.add_tool(run, name=name, description=f"The suite's {name}.", structured_output=False)

    def saying(contents):
        return lambda: contents

    def asking(name, rounds):
        async def run(context: Context):
            return await ask(context, rounds, lambda answers: SAYS.get(name, lambda _: "done")(answers))

        return run

    for name, contents in CONTENTS.items():
        tool(name, saying(contents))
    for name, rounds in QUESTIONS.items():
        tool(name, asking(name, rounds))
    for run in [error_handling, tool_with_logging, logging_tool, tool_with_progress, reconnection, sampling, elicitation]:
        tool(f"test_{run.__name__}", run)
    for run in [input_required_result_capabilities, trigger_tool_change, trigger_prompt_change, x_mcp_header]:
        tool(f"test_{run.__name__}", run)


def error_handling():
    raise ToolError("This tool intentionally returns an error for testing")


async def tool_with_logging(context: Context):
    for line in ["Tool execution started", "Tool processing data", "Tool execution completed"]:
        await context.log("info", line)
        await anyio.sleep(0.05)
    return "logged"


async def logging_tool(context: Context):
    await context.log("info", "Logging tool executed")
    return "logged"


async def tool_with_progress(context: Context):
    for done in [0, 50, 100]:
        await context.report_progress(done, 100)
        await anyio.sleep(0.02)
    return "done"


async def reconnection(context: Context):
    await anyio.sleep(0.05)  # the event that the client comes back with goes out beside this call
    await context.close_sse_stream()
    await anyio.sleep(0.1)
    return "came back"


async def sampling(prompt: str, context: Context):
    return await ask(context, [{"it": sample(prompt)}], lambda answers: f"LLM response: {answers['it'].content.text}")


async def elicitation(message: str, context: Context):
    fields = {"username": {"type": "string"}, "email": {"type": "string"}}
    return await ask(context, [{"it": elicit(message, fields, fields)}], lambda answers: f"User response: {answers['it']}")


async def input_required_result_capabilities(context: Context):
    requests = {"user_name": field("name"), "greeting": GREETING}
    requests = {key: request for key, request in requests.items() if declares(context, request)}
    return await ask(context, [requests], lambda _: "done")


def x_mcp_header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "none"):
    return f"Region: {region}"


async def trigger_tool_change(context: Context):
    server = context.mcp_server
    if there["tool"]:
        server.remove_tool("dynamic_tool")
    else:
        server.add_tool(lambda: "here for a while", name="dynamic_tool", description="Comes and goes.")
    there["tool"] = not there["tool"]
    await (context.notify_tools_changed() if is_modern(context) else context.session.send_tool_list_changed())
    return f"dynamic_tool is {'there' if there['tool'] else 'gone'}"


async def trigger_prompt_change(context: Context):
    server = context.mcp_server
    if there["prompt"]:
        server.remove_prompt("dynamic_prompt")
    else:
        server.add_prompt(Prompt.from_function(lambda: "here for a while", name="dynamic_prompt", description="Comes and goes."))
    there["prompt"] = not there["prompt"]
    await (context.notify_prompts_changed() if is_modern(context) else context.session.send_prompt_list_changed())
    return f"dynamic_prompt is {'there' if there['prompt'] else 'gone'}"


def add_resources(server):
    def resource(uri, name, mime_type, content):
        server.resource(uri, name=name, description=f"The suite's {name} resource.", mime_type=mime_type)(content)

    resource("test://static-text", "static-text", "text/plain", lambda: "This is the content of the static text resource.")
    resource("test://static-binary", "static-binary", "image/png", lambda: base64.b64decode(PNG))
    resource("test://watched-resource", "watched", "text/plain", lambda: "Watched resource content")

    def template(id: str):
        return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}

    resource("test://template/{id}/data", "template", "application/json", template)


def add_prompts(server):
    def prompt(name, run):
        server.prompt(name, description=f"The suite's {name}.")(run)

    def with_arguments(arg1: str, arg2: str):
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    def with_embedded_resource(resourceUri: str):
        return user(embedded(resourceUri, "text/plain", "Embedded resource content for testing."), text("Please process it."))

    async def asking(context: Context):
        def say(answers):
            return f"Context: {(answers['user_context'].content or {}).get('context')}"

        return await ask(context, [{"user_context": field("context")}], say)

    prompt("test_simple_prompt", lambda: "This is a simple prompt for testing.")
    prompt("test_prompt_with_arguments", with_arguments)
    prompt("test_prompt_with_embedded_resource", with_embedded_resource)
    prompt("test_prompt_with_image", lambda: user(IMAGE, text("Please analyze it.")))
    prompt("test_input_required_result_prompt", asking)

    @server.completion()
    async def complete(_ref, _argument, _context):
        return types.Completion(values=["paris", "park"])


def add_older_methods(server):
    """`MCPServer` has no place for these, but what it is made of has."""

    async def nothing(_context, _params):
        return types.EmptyResult()

    add = server._lowlevel_server.add_request_handler
    add("logging/setLevel", types.SetLevelRequestParams, nothing)
    add("resources/subscribe", types.SubscribeRequestParams, nothing)
    add("resources/unsubscribe", types.UnsubscribeRequestParams, nothing)


def schema_tool():
    tool = Tool.from_function(lambda: "called", name="json_schema_2020_12_tool", description="Its schema is listed as it is.")
    return tool.model_copy(update={"parameters": JSON_SCHEMA})


def refuse_older(server):
    async def refuse(context, call_next):
        if context.method == "initialize" and not is_modern(context):
            data = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": context.params["protocolVersion"]}
            raise MCPError(types.UNSUPPORTED_PROTOCOL_VERSION, "this server does not speak the older revisions", data)
        return await call_next(context)

    server._lowlevel_server.middleware.append(refuse)


def without_newer(app):
    """Tells the SDK nothing of a newer revision: then its older part answers, as all of it did before 2026-07-28."""

    async def serve(scope, receive, send):
        newer = [(b"mcp-protocol-version", version.encode()) for version in MODERN_PROTOCOL_VERSIONS]
        headers = [header for header in scope.get("headers", []) if header not in newer]
        await app({**scope, "headers": headers}, receive, send)

    return serve


async def serve_stdio_older(server):
    async with stdio_server() as (read, write), server.lifespan(server) as state:
        await serve_loop(server, read, write, lifespan_state=state)


def serve_http(server, is_older):
    app = server.streamable_http_app(event_store=Events(), retry_interval=1000)
    app = without_newer(app) if is_older else app
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://localhost:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


def main(words):
    server = MCPServer("reference-python", version="1.0.0", log_level="WARNING")
    for add in [add_tools, add_resources, add_prompts, add_older_methods]:
        add(server)
    server._tool_manager._tools["json_schema_2020_12_tool"] = schema_tool()
    if "modern" in words:
        refuse_older(server)
    if "http" in words:
        serve_http(server, is_older="legacy" in words)
    elif "legacy" in words:
        anyio.run(serve_stdio_older, server._lowlevel_server)
    else:
        server.run()


if __name__ == "__main__":
    main(sys.argv[1:])
