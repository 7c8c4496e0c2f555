"""Drives a server through the Python SDK 2.x client: every value that `mcplane fixture` promises, read through the SDK.

`drive.py [--era legacy|modern|auto] [--only NAME,NAME] [--forget URL] -- COMMAND ARGS… | URL`

`legacy` is the initialize handshake, `modern` adopts 2026-07-28 without a probe, `auto` probes with server/discover.
A URL is a server of Streamable HTTP, or of HTTP+SSE if it ends in `/sse`. A POST to the URL after `--forget` must make the server
forget its sessions.
"""

import argparse
import base64
import contextlib
import json
import re
import sys
import time
import urllib.request
import warnings

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPDeprecationWarning

CHECK_S_MAX = 20  # one check; the slowest takes well under a second
EVENT_S_MAX = 5  # one awaited notification
SILENCE_S = 0.15  # long enough for a wrongly sent notification to arrive
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
ROOTS = ["file:///projects/one", "file:///projects/two"]
PNG = b"\x89PNG\r\n\x1a\n"
TOOLS = """echo add sleep fail big progress touch_watched list_roots test_simple_text test_image_content test_audio_content
    test_embedded_resource test_multiple_content_types test_tool_with_logging test_tool_with_progress test_error_handling
    test_sampling test_elicitation test_elicitation_sep1034_defaults test_elicitation_sep1330_enums json_schema_2020_12_tool
    test_trigger_tool_change""".split()


class Peer:
    """The SDK's client, what it answers when asked, and the notifications that it received."""

    def __init__(self, command, mode, forget=None):
        self.command, self.mode, self.forget = command, mode, forget
        self.seen = []
        self.elicit = self.sample = None
        self.client = self.new_client()

    def new_client(self):
        url = self.command[0]
        servers = {
            "stdio": lambda: StdioServerParameters(command=url, args=self.command[1:]),
            "http": lambda: url,
            "sse": lambda: sse_client(url),
        }
        return Client(
            servers[self.speaks](),
            mode=self.mode,
            elicitation_callback=self._elicit,
            sampling_callback=self._sample,
            list_roots_callback=self._roots,
            message_handler=self._message,
        )

    @property
    def speaks(self):
        if not self.command[0].startswith("http"):
            return "stdio"
        return "sse" if self.command[0].endswith("/sse") else "http"

    @property
    def legacy(self):
        return self.client.protocol_version != "2026-07-28"

    async def _elicit(self, _context, params):
        return self.elicit(params)

    async def _sample(self, _context, params):
        return self.sample(params)

    async def _roots(self, _context):
        return types.ListRootsResult(roots=[types.Root(uri=uri) for uri in ROOTS])

    async def _message(self, message):
        self.seen.append(message)

    async def text(self, tool, args=None, **options):
        """The one text block of a call that must succeed."""
        result = await self.client.call_tool(tool, args, **options)
        equal(result.is_error, False, result.content)
        equal([block.type for block in result.content], ["text"])
        return result.content[0].text

    def since(self, start, kind):
        return [message for message in self.seen[start:] if isinstance(message, kind)]

    async def until(self, start, kind):
        with anyio.fail_after(EVENT_S_MAX):
            while not (found := self.since(start, kind)):
                await anyio.sleep(0.005)
        return found[0]

    @contextlib.asynccontextmanager
    async def watching(self, *, uris=(), tools=False):
        """Runs the body while changes are announced: resources/subscribe or subscriptions/listen."""
        if self.legacy:
            for uri in uris:
                await self.client.subscribe_resource(uri)
            yield
            for uri in uris:
                await self.client.unsubscribe_resource(uri)
        else:
            async with self.client.listen(tools_list_changed=tools, resource_subscriptions=uris):
                yield
            await settled()  # leaving cancels the subscription behind the caller's back


async def identity(peer):
    info, offered = peer.client.server_info, peer.client.server_capabilities
    if peer.client.mode != "2026-07-28":  # a pinned version is adopted without asking who the server is
        assert info and info.name and info.version, info
        for capability in ["tools", "resources", "prompts", "completions", "logging"]:
            assert getattr(offered, capability) is not None, capability
        assert offered.resources.subscribe and offered.tools.list_changed, offered
    equal(peer.client.protocol_version, "2025-11-25" if peer.legacy else "2026-07-28")


async def tools_list(peer):
    tools = {tool.name: tool for tool in await every(peer.client.list_tools, "tools")}
    includes(tools, TOOLS)
    for tool in tools.values():
        assert tool.description, f"{tool.name} has no description"
        equal(tool.input_schema["type"], "object", tool.name)
    equal(tools["echo"].input_schema["properties"]["message"]["type"], "string")
    equal(tools["echo"].input_schema["required"], ["message"])


async def schema_is_listed_verbatim(peer):
    tools = {tool.name: tool for tool in await every(peer.client.list_tools, "tools")}
    schema = tools["json_schema_2020_12_tool"].input_schema
    equal(schema["$schema"], "https://json-schema.org/draft/2020-12/schema")
    equal(schema["$defs"]["address"]["$anchor"], "addressDef")
    equal(schema["properties"]["address"]["$ref"], "#/$defs/address")
    assert any(branch["required"] == ["phone"] for branch in schema["allOf"][0]["anyOf"]), schema["allOf"]
    includes(schema, ["if", "then", "else"])
    equal(schema["additionalProperties"], False)


async def echo(peer):
    for message in ["hello", "", "ünïcødé 日本 🦀 \0\u2028", 'one\ntwo\r\n\ttab "quoted" \\', " spaces "]:
        equal(await peer.text("echo", {"message": message}), message)


async def add(peer):
    equal(await peer.text("add", {"a": 2, "b": 40}), "42")
    equal(await peer.text("add", {"a": -7, "b": 3}), "-4")


async def tool_error(peer):
    equal((await peer.client.call_tool("fail", {})).is_error, True)
    result = await peer.client.call_tool("test_error_handling", {})
    equal((result.is_error, result.content[0].text), (True, "This tool intentionally returns an error for testing"))


async def wrong_arguments(peer):
    wrong = [("echo", {}, "message"), ("echo", {"message": 5}, "message"), ("add", {"a": 1}, "b"), ("add", {"a": "x", "b": 1}, "a")]
    for tool, args, named in wrong:
        result = await peer.client.call_tool(tool, args)
        equal(result.is_error, True, f"{tool} {args} was accepted")
        assert re.search(rf"\b{named}\b", result.content[0].text), result.content[0].text


async def unknown_tool(peer):
    await rejects(peer.client.call_tool("no_such_tool", {}), -32602)


async def big(peer):
    # Of HTTP+SSE the SDK reads events up to 1 MiB; what is around the text must fit too.
    size = (1 << 20) - 1024 if peer.speaks == "sse" else 1 << 20
    equal(len((await peer.text("big", {"bytes": size})).encode()), size)


async def content_kinds(peer):
    equal(await peer.text("test_simple_text"), "This is a simple text response for testing.")
    [image] = (await peer.client.call_tool("test_image_content", {})).content
    equal((image.type, image.mime_type, base64.b64decode(image.data)[:8]), ("image", "image/png", PNG))
    [audio] = (await peer.client.call_tool("test_audio_content", {})).content
    equal((audio.type, audio.mime_type, base64.b64decode(audio.data)[:4]), ("audio", "audio/wav", b"RIFF"))
    [embedded] = (await peer.client.call_tool("test_embedded_resource", {})).content
    resource = embedded.resource
    equal((resource.uri, resource.mime_type), ("test://embedded-resource", "text/plain"))
    equal(resource.text, "This is an embedded resource content.")
    text, picture, mixed = (await peer.client.call_tool("test_multiple_content_types", {})).content
    equal((text.text, picture.mime_type), ("Multiple content types test:", "image/png"))
    equal((mixed.resource.uri, mixed.resource.mime_type), ("test://mixed-content-resource", "application/json"))
    equal(json.loads(mixed.resource.text), {"test": "data", "value": 123})


async def progress(peer):
    for tool, args, wanted in [("progress", {"steps": 5}, None), ("test_tool_with_progress", {}, [0, 50, 100])]:
        values = []

        async def note(value, _total, _message):
            values.append(value)

        await peer.text(tool, args, progress_callback=note)
        await settled()
        equal(len(values), len(wanted) if wanted else args["steps"], values)
        assert all(later > earlier for earlier, later in zip(values, values[1:])), f"{tool} does not increase: {values}"
        if wanted:
            equal(values, wanted)
    start = len(peer.seen)
    await peer.text("progress", {"steps": 2})
    await settled()
    equal(peer.since(start, types.ProgressNotification), [], "progress without a token")


async def cancel(peer):
    with anyio.move_on_after(0.1) as scope:
        await peer.client.call_tool("sleep", {"ms": 30_000})
    assert scope.cancelled_caught, "sleep returned early"
    equal(await peer.text("echo", {"message": "still here"}), "still here")


async def concurrent_calls(peer):
    messages = [f"message {i}" for i in range(32)]
    echoed = {}

    async def one(message):
        echoed[message] = await peer.text("echo", {"message": message})

    async with anyio.create_task_group() as group:
        for message in messages:
            group.start_soon(one, message)
    equal(echoed, {message: message for message in messages})


async def resources_list(peer):
    resources = {resource.uri: resource for resource in await every(peer.client.list_resources, "resources")}
    includes(resources, ["test://static-text", "test://static-binary", "test://watched-resource"])
    for uri, resource in resources.items():
        assert resource.name and resource.description, uri
    templates = await every(peer.client.list_resource_templates, "resource_templates")
    includes([template.uri_template for template in templates], ["test://template/{id}/data"])


async def resources_read(peer):
    async def read(uri):
        [contents] = (await peer.client.read_resource(uri)).contents
        equal(contents.uri, uri)
        return contents

    equal((await read("test://static-text")).text, "This is the content of the static text resource.")
    binary = await read("test://static-binary")
    equal((binary.mime_type, base64.b64decode(binary.blob)[:8]), ("image/png", PNG))
    data = json.loads((await read("test://template/123/data")).text)
    equal(data, {"id": "123", "templateTest": True, "data": "Data for ID: 123"})


async def unknown_resource(peer):
    error = await rejects(peer.client.read_resource("test://no-such-resource"), -32002 if peer.legacy else -32602)
    equal(error.data["uri"], "test://no-such-resource")


async def resource_updated(peer):
    uri, kind = "test://watched-resource", types.ResourceUpdatedNotification
    async with peer.watching(uris=[uri]):
        start = len(peer.seen)
        await peer.text("touch_watched", {})
        equal((await peer.until(start, kind)).params.uri, uri)
    start = len(peer.seen)
    await peer.text("touch_watched", {})
    await anyio.sleep(SILENCE_S)
    equal(peer.since(start, kind), [], "updates without a subscription")


async def tools_changed(peer):
    async def names():
        tools = await every(lambda cursor: peer.client.list_tools(cursor=cursor, cache_mode="refresh"), "tools")
        return {tool.name for tool in tools}

    before = await names()
    async with peer.watching(tools=True):
        start = len(peer.seen)
        await peer.text("test_trigger_tool_change", {})
        await peer.until(start, types.ToolListChangedNotification)
    assert await names() != before, "the list is the same"


async def prompts(peer):
    prompts = {prompt.name: prompt for prompt in await every(peer.client.list_prompts, "prompts")}
    names = "test_simple_prompt test_prompt_with_arguments test_prompt_with_embedded_resource test_prompt_with_image"
    includes(prompts, names.split())
    for prompt in prompts.values():
        assert prompt.description, f"{prompt.name} has no description"
    equal([argument.name for argument in prompts["test_prompt_with_arguments"].arguments], ["arg1", "arg2"])

    async def messages(name, args=None):
        return (await peer.client.get_prompt(name, args)).messages

    [simple, *_] = await messages("test_simple_prompt")
    assert simple.role == "user" and simple.content.text, simple
    filled = await messages("test_prompt_with_arguments", {"arg1": "hello", "arg2": "wörld"})
    equal(filled[0].content.text, "Prompt with arguments: arg1='hello', arg2='wörld'")
    embedded = await messages("test_prompt_with_embedded_resource", {"resourceUri": "test://example-resource"})
    equal([m.content.resource.uri for m in embedded if m.content.type == "resource"], ["test://example-resource"])
    [image] = [m.content for m in await messages("test_prompt_with_image") if m.content.type == "image"]
    equal((image.mime_type, base64.b64decode(image.data)[:8]), ("image/png", PNG))


async def unknown_prompt(peer):
    await rejects(peer.client.get_prompt("no_such_prompt"), -32602)


async def completion(peer):
    ref = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
    values = (await peer.client.complete(ref, {"name": "arg1", "value": "te"})).completion.values
    assert len(values) <= 100 and all(value.startswith("te") for value in values), values


async def elicitation_accepted(peer):
    asked = []
    peer.elicit = accept(asked)
    text = await peer.text("test_elicitation", {"message": "Who are you?"})
    equal([params.message for params in asked], ["Who are you?"])
    said = re.fullmatch(r"User response: action=accept, content=(.*)", text, re.S)
    assert said, text
    equal(json.loads(said[1]), fill(asked[0].requested_schema))


async def elicitation_declined(peer):
    asked = []
    peer.elicit = lambda params: (asked.append(params), types.ElicitResult(action="decline"))[1]
    text = await peer.text("test_elicitation", {"message": "Who are you?"})
    assert text.startswith("User response: action=decline"), text
    equal(len(asked), 1)


async def elicitation_defaults(peer):
    asked = []
    peer.elicit = accept(asked)
    await peer.text("test_elicitation_sep1034_defaults", {})
    properties = asked[0].requested_schema["properties"]
    told = {name: (schema["type"], schema["default"]) for name, schema in properties.items()}
    equal(told, {
        "name": ("string", "John Doe"), "age": ("integer", 30), "score": ("number", 95.5),
        "status": ("string", "active"), "verified": ("boolean", True),
    })
    equal(properties["status"]["enum"], ["active", "inactive", "pending"])


async def elicitation_enums(peer):
    asked = []
    peer.elicit = accept(asked)
    await peer.text("test_elicitation_sep1330_enums", {})
    properties = asked[0].requested_schema["properties"]
    options, values = ["option1", "option2", "option3"], ["value1", "value2", "value3"]
    equal(properties["untitledSingle"]["enum"], options)
    equal([choice["const"] for choice in properties["titledSingle"]["oneOf"]], values)
    equal([len(properties["legacyEnum"][key]) for key in ("enum", "enumNames")], [3, 3])
    equal(properties["untitledMulti"]["items"]["enum"], options)
    equal([choice["const"] for choice in properties["titledMulti"]["items"]["anyOf"]], values)


async def sampling(peer):
    asked = []
    peer.sample = lambda params: (asked.append(params), said("forty-two"))[1]
    equal(await peer.text("test_sampling", {"prompt": "The answer?"}), "LLM response: forty-two")
    [message] = asked[0].messages
    content = message.content[0] if isinstance(message.content, list) else message.content
    equal((message.role, content.text, asked[0].max_tokens), ("user", "The answer?", 100))


async def roots(peer):
    equal(await peer.text("list_roots", {}), "\n".join(ROOTS))


async def logging(peer):
    async def told(level):
        if peer.legacy:
            await peer.client.set_logging_level(level)
        start = len(peer.seen)
        await peer.text("test_tool_with_logging", {}, meta={LOG_LEVEL: level} if level and not peer.legacy else None)
        await settled()
        return peer.since(start, types.LoggingMessageNotification)

    messages = [message.params for message in await told("info")]
    includes([m.data for m in messages], ["Tool execution started", "Tool processing data", "Tool execution completed"])
    equal({m.level for m in messages}, {"info"})
    equal(await told("error"), [], "messages below the level that was set")
    if not peer.legacy:
        equal(await told(None), [], "messages without a log level")


async def ping(peer):
    await peer.client.send_ping()


async def input_required(peer):
    peer.elicit = lambda params: types.ElicitResult(action="accept", content={"name": "Ada"})
    equal(await peer.text("test_input_required_result_elicitation", {}), "Hello, Ada!")
    text = await peer.text("test_input_required_result_request_state", {})
    assert "state-ok" in text, text


async def input_required_many(peer):
    for tool in ["test_input_required_result_multi_round", "test_input_required_result_multiple_inputs"]:
        asked = []
        peer.elicit = accept(asked)
        peer.sample = lambda params: (asked.append(params), said("ok"))[1]
        equal((await peer.client.call_tool(tool, {})).is_error, False)
        assert len(asked) >= 2, f"{tool} asked {len(asked)} times"


async def resumed(peer):
    """Legacy: the stream of the answer ends in the middle of the call, and the SDK must come back for the rest."""

    async def again():
        equal(await peer.text("test_reconnection", {}), "Reconnection test completed successfully")

    await again()
    await at_once([again] * 3)


async def many_kinds_at_once(peer):
    peer.elicit = accept([])
    peer.sample = lambda params: said("ok")
    calls = []
    for i in range(6):
        for tool, args in [
            ("echo", {"message": str(i)}), ("sleep", {"ms": 20 * i}), ("progress", {"steps": 3}), ("big", {"bytes": 100_000}),
            ("test_elicitation", {"message": str(i)}), ("test_sampling", {"prompt": str(i)}), ("list_roots", {}),
        ]:
            calls.append(lambda tool=tool, args=args: peer.text(tool, args))
    await at_once(calls)


async def mirrored_argument(peer):
    """An argument that travels in a header too; what a header cannot hold is encoded."""
    await every(peer.client.list_tools, "tools")
    for region in ["eu-west-1", "Zürich", " padded ", "=?base64?eA==?="]:
        equal(await peer.text("test_x_mcp_header", {"region": region}), f"Region: {region}")
    equal(await peer.text("test_x_mcp_header", {}), "Region: none")


async def forgotten_session(peer):
    """The SDK hands the server's error to its user, who connects anew."""
    await anyio.to_thread.run_sync(lambda: urllib.request.urlopen(peer.forget, data=b"").close())
    try:
        raise AssertionError(f"answered: {await peer.client.call_tool('echo', {'message': 'lost'})}")
    except MCPError as error:
        assert "session" in error.message.lower(), error.message
    async with peer.new_client() as client:
        equal((await client.call_tool("echo", {"message": "found"})).content[0].text, "found")


CHECKS = [
    identity, tools_list, schema_is_listed_verbatim, echo, add, tool_error, wrong_arguments, unknown_tool, big, content_kinds,
    progress, cancel, concurrent_calls, resources_list, resources_read, unknown_resource, resource_updated, tools_changed,
    prompts, unknown_prompt, completion, elicitation_accepted, elicitation_declined, elicitation_defaults, elicitation_enums,
    sampling, roots, logging,
]
LEGACY_CHECKS = [ping]
MODERN_CHECKS = [input_required, input_required_many]


def checks_of(peer):
    checks = CHECKS + (LEGACY_CHECKS if peer.legacy else MODERN_CHECKS)
    if peer.speaks == "http":
        checks += [resumed, many_kinds_at_once]
        if not peer.legacy:
            checks.append(mirrored_argument)
        elif peer.forget:
            checks.append(forgotten_session)
    return checks


async def at_once(calls):
    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(call)


async def every(fetch, key):
    """All items of a paginated list, which must not repeat one."""
    page = await fetch(cursor=None)
    items = list(getattr(page, key))
    while page.next_cursor is not None:
        page = await fetch(cursor=page.next_cursor)
        items += getattr(page, key)
    names = [getattr(item, "uri", None) or item.name for item in items]
    equal(len(set(names)), len(names), f"repeated: {names}")
    return items


def fill(schema):
    """The schema's own kind of value for each property."""
    plain = {"string": "ada", "integer": 7, "number": 1.5, "boolean": True, "array": []}

    def value(schema):
        choices = schema.get("enum") or [choice["const"] for choice in schema.get("oneOf", [])]
        return choices[0] if choices else plain[schema["type"]]

    return {name: value(schema) for name, schema in schema["properties"].items()}


def accept(asked):
    def answer(params):
        asked.append(params)
        return types.ElicitResult(action="accept", content=fill(params.requested_schema))

    return answer


def said(text):
    return types.CreateMessageResult(role="assistant", model="driver", content=types.TextContent(text=text), stop_reason="endTurn")


async def rejects(call, code):
    try:
        result = await call
    except MCPError as error:
        equal(error.code, code, error.message)
        return error
    raise AssertionError(f"accepted: {str(result)[:200]}")


def equal(actual, wanted, why=""):
    assert actual == wanted, f"{why} {actual!r} instead of {wanted!r}"


def includes(actual, wanted):
    missing = [item for item in wanted if item not in actual]
    assert not missing, f"missing {missing} in {list(actual)}"


def settled():
    """Lets the notifications that came with a response be dispatched."""
    return anyio.sleep(0.02)


async def attempt(name, work):
    try:
        with anyio.fail_after(CHECK_S_MAX):
            await work
        print(f"ok {name}", flush=True)
        return True
    except Exception as error:  # one failed check must not hide the others
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        print(f"FAIL {name}: {type(error).__name__} {error}".replace("\n", " | "), flush=True)
        return False


async def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--era", choices=["legacy", "modern", "auto"], default="legacy")
    parser.add_argument("--only", type=lambda names: names.split(","))
    parser.add_argument("--forget")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    def wanted(name):
        return not options.only or name in options.only

    mode = "2026-07-28" if options.era == "modern" else options.era
    peer = Peer(options.command, mode, options.forget)
    passed = True
    async with peer.client:
        for check in checks_of(peer):
            if wanted(check.__name__):
                passed &= await attempt(check.__name__, check(peer))
        closing = time.monotonic()

    # The SDK closes stdin, waits 2 s for the server to leave and only then signals it.
    async def closes_with_stdin():
        elapsed = time.monotonic() - closing
        assert elapsed < 1.9, f"the server was still there {elapsed:.1f} s after its stdin closed"

    if peer.speaks == "stdio" and wanted("closes_with_stdin"):
        passed &= await attempt("closes_with_stdin", closes_with_stdin())
    return 0 if passed else 1


if __name__ == "__main__":
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    sys.exit(anyio.run(main))
