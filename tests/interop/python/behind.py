"""Drives the SDK through a gateway with five servers behind it, which nobody here wrote: see ../behind.mjs.

`behind.py [--era legacy|modern|auto] -- URL`: the URL of the gateway's endpoint of all servers; those of one server are beside it.
"""

import argparse
import os
import sys
import warnings
from urllib.parse import urljoin

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPDeprecationWarning

from drive import Peer, at_once, attempt, every, fill, includes, equal, rejects, said, settled

FEATURES = "demo://resource/static/document/features.md"
LISTED = types.ResourceListChangedNotification


async def identity(peer):
    equal(peer.client.protocol_version, "2025-11-25" if peer.legacy else "2026-07-28")


async def tools_of_all(peer):
    names = [tool.name for tool in await every(peer.client.list_tools, "tools")]
    includes(names, """get-sum get-structured-content read_text_file list_directory get_current_time convert_time
        everything__echo rmcp__echo python__echo rmcp__add python__add""".split())
    assert "echo" not in names and "add" not in names, names


async def calls_to_all(peer):
    equal(await peer.text("everything__echo", {"message": "ünïcødé 🦀"}), "Echo: ünïcødé 🦀")
    equal(await peer.text("get-sum", {"a": 2, "b": 40}), "The sum of 2 and 40 is 42.")
    for server in ["rmcp", "python"]:
        equal(await peer.text(f"{server}__echo", {"message": server}), server)
        equal(await peer.text(f"{server}__add", {"a": 2, "b": 40}), "42")
    noon = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    assert "T21:00:00+09:00" in await peer.text("convert_time", noon)
    assert (await peer.text("list_allowed_directories", {})).startswith("Allowed directories:\n/")


async def structured_content(peer):
    result = await peer.client.call_tool("get-structured-content", {"location": "New York"})
    equal(result.structured_content, {"temperature": 33, "conditions": "Cloudy", "humidity": 82})


async def concurrent_calls(peer):
    async def one(server, message):
        equal(await peer.text(f"{server}__echo", {"message": message}), message)

    await at_once([lambda s=server, i=i: one(s, str(i)) for server in ["rmcp", "python"] for i in range(10)])


async def progress(peer):
    told = []

    async def hear(progress, total, _message):
        told.append((progress, total))

    await peer.client.call_tool("trigger-long-running-operation", {"duration": 0.3, "steps": 3}, progress_callback=hear)
    await settled()
    equal(told, [(1, 3), (2, 3), (3, 3)])


async def cancel(peer):
    with anyio.move_on_after(0.1):
        await peer.text("trigger-long-running-operation", {"duration": 1, "steps": 1})
        raise AssertionError("not cancelled")
    equal(await peer.text("everything__echo", {"message": "still here"}), "Echo: still here")


async def resources(peer):
    includes([resource.uri for resource in await every(peer.client.list_resources, "resources")], [FEATURES])
    templates = (await peer.client.list_resource_templates()).resource_templates
    includes([template.uri_template for template in templates], ["demo://resource/dynamic/text/{resourceId}"])
    assert len((await peer.client.read_resource(FEATURES)).contents[0].text) > 1_000
    assert "Resource 7" in (await peer.client.read_resource("demo://resource/dynamic/text/7")).contents[0].text


async def resource_updated(peer):
    async with peer.watching(uris=[FEATURES]):
        # The gateway answers a subscription by itself; its server has heard of it before it hears of a later call.
        await peer.text("everything__echo", {"message": "settled"})
        start = len(peer.seen)
        await peer.text("toggle-subscriber-updates", {})
        equal((await peer.until(start, types.ResourceUpdatedNotification)).params.uri, FEATURES)
        await peer.text("toggle-subscriber-updates", {})


async def resources_changed(peer):
    made = {"name": f"{os.getpid()}.gz", "data": "data:text/plain,hello", "outputType": "resourceLink"}
    start = len(peer.seen)
    link = (await peer.client.call_tool("gzip-file-as-resource", made)).content[0]
    if peer.legacy:
        await peer.until(start, LISTED)
    assert (await peer.client.read_resource(link.uri)).contents[0].blob


async def prompts(peer):
    listed = [prompt.name for prompt in await every(peer.client.list_prompts, "prompts")]
    includes(listed, ["simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"])
    filled = await peer.client.get_prompt("args-prompt", {"city": "Ulm", "state": "BW"})
    equal(filled.messages[0].content.text, "What's weather in Ulm, BW?")


async def completion(peer):
    of = types.PromptReference(type="ref/prompt", name="completable-prompt")
    equal((await peer.client.complete(of, {"name": "department", "value": "S"})).completion.values, ["Sales", "Support"])


async def elicitation(peer):
    asked = []

    def answer(params):
        asked.append(params)
        filled = fill(params.requested_schema)
        return types.ElicitResult(action="accept", content={name: filled[name] for name in ["name", "check"]})

    peer.elicit = answer
    result = await peer.client.call_tool("trigger-elicitation-request", {})
    equal([params.message for params in asked], ["Please provide inputs for the following fields:"])
    equal(result.content[1].text, "User inputs:\n- Name: ada\n- Agreed to terms: true")
    peer.elicit = lambda params: types.ElicitResult(action="decline")
    assert "User declined" in (await peer.client.call_tool("trigger-elicitation-request", {})).content[0].text


async def sampling(peer):
    asked = []
    peer.sample = lambda params: (asked.append(params), said("forty-two"))[1]
    assert "forty-two" in await peer.text("trigger-sampling-request", {"prompt": "The answer?", "maxTokens": 7})
    equal([params.max_tokens for params in asked], [7])


async def errors(peer):
    await rejects(peer.client.call_tool("echo", {"message": "whose?"}), -32602)
    await rejects(peer.client.call_tool("rmcp__nothing", {}), -32602)
    await rejects(peer.client.get_prompt("nothing"), -32602)
    await rejects(peer.client.read_resource("nobody://knows"), -32602)  # what `everything` says in either era
    equal((await peer.client.call_tool("read_text_file", {"path": "/etc/passwd"})).is_error, True)


async def own_endpoints(peer):
    """At its own endpoint a server's names are its own."""
    for server, tool, args, text in [
        ("everything", "echo", {"message": "hi"}, "Echo: hi"), ("rmcp", "echo", {"message": "hi"}, "hi"),
        ("python", "add", {"a": 1, "b": 1}, "2"), ("filesystem", "list_allowed_directories", {}, "Allowed directories:"),
        ("time", "get_current_time", {"timezone": "UTC"}, '"timezone": "UTC"'),
    ]:
        own = Peer([urljoin(peer.command[0], f"/{server}/mcp")], peer.mode)
        async with own.client:
            names = [found.name for found in await every(own.client.list_tools, "tools")]
            assert tool in names and not any("__" in name for name in names), f"{server}: {names}"
            assert text in await own.text(tool, args), server


CHECKS = [
    identity, tools_of_all, calls_to_all, structured_content, concurrent_calls, progress, cancel, resources, resource_updated,
    resources_changed, prompts, completion, elicitation, sampling, errors, own_endpoints,
]


async def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--era", choices=["legacy", "modern", "auto"], default="legacy")
    parser.add_argument("url")
    options = parser.parse_args()
    peer = Peer([options.url], "2026-07-28" if options.era == "modern" else options.era)
    passed = True
    async with peer.client:
        for check in CHECKS:
            passed &= await attempt(check.__name__, check(peer))
    return 0 if passed else 1


if __name__ == "__main__":
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    sys.exit(anyio.run(main))
