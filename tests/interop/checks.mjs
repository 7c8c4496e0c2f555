// What both TypeScript drivers check against `mcplane fixture`: every value the fixture promises, read through the SDK.
//
// A driver passes a `peer`: the SDK's connected client and the few calls in which the two SDKs differ.
//   client                         the SDK's Client (the calls used here are spelled alike in 1.x and 2.x)
//   era                            'legacy' or 'modern'
//   notFound                       the code that the SDK shows for a resource that does not exist
//   call(name, args, options)      tools/call
//   seen                           every notification received, in order: { method, params }
//   answer                         what the client says when asked: { elicit(params), sample(params) }
//   watch(filter, body)            runs `body` while changes are announced: resources/subscribe or subscriptions/listen
//   speaks                         'stdio', 'http' or 'sse'
//   url                            of the server
//   connect(url)                   connects a new client in place of the present one
//   session(), statusOf(error)     the id of the HTTP session; the HTTP status that an error tells
//   terminate()                    tells the server that the session is over
import assert from 'node:assert/strict';

const CHECK_MS_MAX = 20_000; // one check; the slowest takes well under a second
const EVENT_MS_MAX = 12_000; // one awaited notification; `everything` repeats its own every 5 s
const SILENCE_MS = 150; // long enough for a wrongly sent notification to arrive
export const ROOTS = [{ uri: 'file:///projects/one', name: 'one' }, { uri: 'file:///projects/two', name: 'two' }];

const PNG = 'iVBORw0KGgo'; // the PNG signature in base64
const WAV = 'UklGR'; // "RIFF" in base64
const [INFO, ERROR] = ['info', 'error'];

/**
 * `drive.mjs [--era ERA] [--only NAME,NAME] [--forget URL] [--checks behind] -- COMMAND ARGS… | URL`
 *
 * A URL is a server of Streamable HTTP, or of HTTP+SSE if it ends in `/sse`. A POST to the URL after `--forget` must make the
 * server forget its sessions. `--checks behind`: the URL is that of a gateway with real servers behind it, see behind.mjs.
 */
export function parse(argv, eras) {
  const split = argv.indexOf('--');
  const options = { era: eras[0], only: null, forget: null, behind: false, command: argv[split + 1], args: argv.slice(split + 2) };
  for (let i = 0; i < split; i += 2) {
    if (argv[i] === '--era' && eras.includes(argv[i + 1])) options.era = argv[i + 1];
    else if (argv[i] === '--only') options.only = new Set(argv[i + 1].split(','));
    else if (argv[i] === '--forget') options.forget = argv[i + 1];
    else if (argv[i] === '--checks' && argv[i + 1] === 'behind') options.behind = true;
    else throw new Error(`unknown option ${argv[i]} ${argv[i + 1]}; eras: ${eras}`);
  }
  if (split < 0 || !options.command) throw new Error('usage: drive.mjs [--era ERA] [--only NAME,NAME] -- COMMAND ARGS… | URL');
  if (/^https?:/.test(options.command)) {
    options.url = new URL(options.command);
    options.speaks = options.url.pathname.endsWith('/sse') ? 'sse' : 'http';
  } else options.speaks = 'stdio';
  return options;
}

/** Runs the checks one after another, by default those of the fixture; the exit code is 1 when any failed. */
export async function run(peer, only, wanted = ofFixture(peer)) {
  for (const [name, check] of Object.entries({ ...wanted, ...(peer.speaks === 'stdio' ? stdioClosing : webClosing) })) {
    if (only && !only.has(name)) continue;
    try {
      await within(CHECK_MS_MAX, name, check(peer));
      console.log(`ok ${name}`);
    } catch (error) {
      process.exitCode = 1;
      console.log(`FAIL ${name}: ${String(error?.message ?? error).replace(/\s*\n\s*/g, ' | ')}`);
    }
  }
  process.exit();
}

function ofFixture(peer) {
  const legacy = peer.era === 'legacy';
  const wanted = { ...checks, ...(legacy ? legacyChecks : modernChecks) };
  if (peer.speaks === 'http') Object.assign(wanted, webChecks, legacy ? peer.forget && sessionChecks : modernWebChecks);
  return wanted;
}

/** The schema's own kind of value for each property. */
export function fill(schema) {
  const value = (property) =>
    property.enum?.[0] ?? property.oneOf?.[0].const ??
    { string: 'ada', integer: 7, number: 1.5, boolean: true, array: [] }[property.type];
  return Object.fromEntries(Object.entries(schema.properties).map(([name, property]) => [name, value(property)]));
}

const checks = {
  async identity({ client, era }) {
    const { name, version } = client.getServerVersion();
    assert.ok(name && version, `server info ${name} ${version}`);
    const offered = client.getServerCapabilities();
    for (const capability of ['tools', 'resources', 'prompts', 'completions', 'logging']) assert.ok(offered[capability], capability);
    assert.ok(offered.resources.subscribe && offered.tools.listChanged, 'resources.subscribe and tools.listChanged');
    const revision = client.getNegotiatedProtocolVersion?.(); // 2.x only
    if (revision) assert.equal(revision, era === 'modern' ? '2026-07-28' : '2025-11-25');
  },

  async tools_list({ client }) {
    const tools = await every((cursor) => client.listTools(cursor), 'tools');
    includes(tools.map((tool) => tool.name), [
      'echo', 'add', 'sleep', 'fail', 'big', 'progress', 'touch_watched', 'list_roots', 'test_simple_text', 'test_image_content',
      'test_audio_content', 'test_embedded_resource', 'test_multiple_content_types', 'test_tool_with_logging',
      'test_tool_with_progress', 'test_error_handling', 'test_sampling', 'test_elicitation', 'test_elicitation_sep1034_defaults',
      'test_elicitation_sep1330_enums', 'json_schema_2020_12_tool', 'test_trigger_tool_change',
    ]);
    for (const tool of tools) {
      assert.ok(tool.description, `${tool.name} has no description`);
      assert.equal(tool.inputSchema.type, 'object', tool.name);
    }
    const echo = tools.find((tool) => tool.name === 'echo');
    assert.equal(echo.inputSchema.properties.message.type, 'string');
    assert.deepEqual(echo.inputSchema.required, ['message']);
  },

  async schema_is_listed_verbatim({ client }) {
    const tools = await every((cursor) => client.listTools(cursor), 'tools');
    const schema = tools.find((tool) => tool.name === 'json_schema_2020_12_tool').inputSchema;
    assert.equal(schema.$schema, 'https://json-schema.org/draft/2020-12/schema');
    assert.equal(schema.$defs.address.$anchor, 'addressDef');
    assert.equal(schema.properties.address.$ref, '#/$defs/address');
    assert.ok(schema.allOf[0].anyOf.some((branch) => branch.required[0] === 'phone'), 'allOf[0].anyOf');
    assert.ok(schema.if && schema.then && schema.else, 'if, then, else');
    assert.equal(schema.additionalProperties, false);
  },

  async echo({ call }) {
    for (const message of ['hello', '', 'ünïcødé 日本 🦀 \u0000\u2028', 'one\ntwo\r\n\ttab "quoted" \\', ' spaces ']) {
      assert.equal(textOf(await call('echo', { message })), message);
    }
  },

  async add({ call }) {
    assert.equal(textOf(await call('add', { a: 2, b: 40 })), '42');
    assert.equal(textOf(await call('add', { a: -7, b: 3 })), '-4');
  },

  async tool_error({ call }) {
    assert.equal((await call('fail', {})).isError, true);
    const result = await call('test_error_handling', {});
    assert.equal(result.isError, true);
    assert.equal(result.content[0].text, 'This tool intentionally returns an error for testing');
  },

  async wrong_arguments({ call }) {
    const wrong = [
      ['echo', {}, 'message'], ['echo', { message: 5 }, 'message'], ['add', { a: 1 }, 'b'], ['add', { a: 'x', b: 1 }, 'a'],
    ];
    for (const [tool, args, named] of wrong) {
      const result = await call(tool, args);
      assert.equal(result.isError, true, `${tool} ${JSON.stringify(args)} was accepted`);
      assert.match(result.content[0].text, new RegExp(`\\b${named}\\b`));
    }
  },

  async unknown_tool({ call }) {
    await rejects(call('no_such_tool', {}), -32602);
  },

  async big({ call }) {
    const bytes = 1 << 20;
    assert.equal(Buffer.byteLength(textOf(await call('big', { bytes }))), bytes);
  },

  async content_kinds({ call }) {
    assert.equal(textOf(await call('test_simple_text')), 'This is a simple text response for testing.');
    const [image] = (await call('test_image_content', {})).content;
    assert.deepEqual([image.type, image.mimeType, image.data.startsWith(PNG)], ['image', 'image/png', true]);
    const [audio] = (await call('test_audio_content', {})).content;
    assert.deepEqual([audio.type, audio.mimeType, audio.data.startsWith(WAV)], ['audio', 'audio/wav', true]);
    const [embedded] = (await call('test_embedded_resource', {})).content;
    assert.equal(embedded.type, 'resource');
    assert.deepEqual(embedded.resource, {
      uri: 'test://embedded-resource', mimeType: 'text/plain', text: 'This is an embedded resource content.',
    });
    const [text, picture, mixed] = (await call('test_multiple_content_types', {})).content;
    assert.equal(text.text, 'Multiple content types test:');
    assert.equal(picture.mimeType, 'image/png');
    assert.deepEqual([mixed.resource.uri, mixed.resource.mimeType], ['test://mixed-content-resource', 'application/json']);
    assert.deepEqual(JSON.parse(mixed.resource.text), { test: 'data', value: 123 });
  },

  // The SDKs dispatch a notification one microtask after its arrival and forget the progress callback as soon as the response
  // is read: of what arrives in one read with the response, `onprogress` sees nothing. So the notifications themselves are read.
  async progress({ call, seen }) {
    for (const [tool, args, wanted] of [['progress', { steps: 5 }, null], ['test_tool_with_progress', {}, [0, 50, 100]]]) {
      const from = seen.length;
      const result = await call(tool, args, { onprogress() {} });
      await settled();
      const values = seen.slice(from).filter((n) => n.method === 'notifications/progress').map((n) => n.params.progress);
      if (wanted) assert.deepEqual(values, wanted);
      assert.equal(values.length, wanted?.length ?? args.steps, `${tool}: ${values}`);
      assert.ok(values.every((value, i) => i === 0 || value > values[i - 1]), `${tool} does not increase: ${values}`);
      assert.ok(!result.isError && result.content[0].type === 'text');
    }
    const from = seen.length;
    await call('progress', { steps: 2 });
    await settled();
    assert.equal(seen.slice(from).filter((n) => n.method === 'notifications/progress').length, 0, 'progress without a token');
  },

  async cancel({ call }) {
    const stop = new AbortController();
    const sleeping = call('sleep', { ms: 30_000 }, { signal: stop.signal });
    setTimeout(() => stop.abort('enough'), 100);
    await assert.rejects(sleeping);
    assert.equal(textOf(await call('echo', { message: 'still here' })), 'still here');
  },

  async concurrent_calls({ call }) {
    const messages = Array.from({ length: 32 }, (_, i) => `message ${i}`);
    const results = await Promise.all(messages.map((message) => call('echo', { message })));
    assert.deepEqual(results.map(textOf), messages);
  },

  async resources_list({ client }) {
    const resources = await every((cursor) => client.listResources(cursor), 'resources');
    includes(resources.map((resource) => resource.uri), ['test://static-text', 'test://static-binary', 'test://watched-resource']);
    for (const resource of resources) assert.ok(resource.name && resource.description, resource.uri);
    const templates = await every((cursor) => client.listResourceTemplates(cursor), 'resourceTemplates');
    includes(templates.map((template) => template.uriTemplate), ['test://template/{id}/data']);
  },

  async resources_read({ client }) {
    const read = async (uri) => {
      const { contents } = await client.readResource({ uri });
      assert.deepEqual([contents.length, contents[0].uri], [1, uri]);
      return contents[0];
    };
    assert.equal((await read('test://static-text')).text, 'This is the content of the static text resource.');
    const binary = await read('test://static-binary');
    assert.deepEqual([binary.mimeType, binary.blob.startsWith(PNG), binary.text], ['image/png', true, undefined]);
    assert.deepEqual(JSON.parse((await read('test://template/123/data')).text), {
      id: '123', templateTest: true, data: 'Data for ID: 123',
    });
  },

  async unknown_resource({ client, notFound }) {
    const error = await rejects(client.readResource({ uri: 'test://no-such-resource' }), notFound);
    assert.equal(error.data.uri, 'test://no-such-resource');
  },

  async resource_updated({ call, seen, watch }) {
    const uri = 'test://watched-resource';
    await watch({ resourceSubscriptions: [uri] }, async () => {
      const from = seen.length;
      await call('touch_watched', {});
      const { params } = await until(seen, from, 'notifications/resources/updated');
      assert.equal(params.uri, uri);
    });
    const from = seen.length;
    await call('touch_watched', {});
    await silence(seen, from, 'notifications/resources/updated');
  },

  async tools_changed({ call, client, seen, watch }) {
    const names = async () => {
      const tools = await every((cursor) => client.listTools(cursor, { cacheMode: 'refresh' }), 'tools');
      return tools.map((tool) => tool.name).sort();
    };
    const before = await names();
    await watch({ toolsListChanged: true }, async () => {
      const from = seen.length;
      await call('test_trigger_tool_change', {});
      await until(seen, from, 'notifications/tools/list_changed');
    });
    assert.notDeepEqual(await names(), before);
  },

  async prompts({ client }) {
    const prompts = await every((cursor) => client.listPrompts(cursor), 'prompts');
    includes(prompts.map((prompt) => prompt.name), [
      'test_simple_prompt', 'test_prompt_with_arguments', 'test_prompt_with_embedded_resource', 'test_prompt_with_image',
    ]);
    for (const prompt of prompts) assert.ok(prompt.description, `${prompt.name} has no description`);
    const listed = prompts.find((prompt) => prompt.name === 'test_prompt_with_arguments');
    assert.deepEqual(listed.arguments.map((argument) => argument.name), ['arg1', 'arg2']);

    const [simple] = (await client.getPrompt({ name: 'test_simple_prompt' })).messages;
    assert.deepEqual([simple.role, simple.content.type], ['user', 'text']);
    assert.ok(simple.content.text);
    const filled = await client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'hello', arg2: 'wörld' } });
    assert.equal(filled.messages[0].content.text, "Prompt with arguments: arg1='hello', arg2='wörld'");
    const embedded = await client.getPrompt({
      name: 'test_prompt_with_embedded_resource', arguments: { resourceUri: 'test://example-resource' },
    });
    const resource = embedded.messages.map((message) => message.content).find((content) => content.type === 'resource');
    assert.equal(resource.resource.uri, 'test://example-resource');
    const pictured = await client.getPrompt({ name: 'test_prompt_with_image' });
    const image = pictured.messages.map((message) => message.content).find((content) => content.type === 'image');
    assert.deepEqual([image.mimeType, image.data.startsWith(PNG)], ['image/png', true]);
  },

  async unknown_prompt({ client }) {
    await rejects(client.getPrompt({ name: 'no_such_prompt' }), -32602);
  },

  async completion({ client }) {
    const { completion } = await client.complete({
      ref: { type: 'ref/prompt', name: 'test_prompt_with_arguments' }, argument: { name: 'arg1', value: 'te' },
    });
    assert.ok(Array.isArray(completion.values) && completion.values.length <= 100);
    for (const value of completion.values) assert.ok(value.startsWith('te'), value);
  },

  async elicitation_accepted({ call, answer }) {
    let asked, given;
    answer.elicit = (params) => {
      asked = params;
      given = fill(params.requestedSchema);
      return { action: 'accept', content: given };
    };
    const text = textOf(await call('test_elicitation', { message: 'Who are you?' }));
    assert.equal(asked.message, 'Who are you?');
    const said = /^User response: action=accept, content=(.*)$/s.exec(text);
    assert.ok(said, text);
    assert.deepEqual(JSON.parse(said[1]), given);
  },

  async elicitation_declined({ call, answer }) {
    let asked = 0;
    answer.elicit = () => (asked++, { action: 'decline' });
    assert.match(textOf(await call('test_elicitation', { message: 'Who are you?' })), /^User response: action=decline/);
    assert.equal(asked, 1);
  },

  async elicitation_defaults({ call, answer }) {
    let properties;
    answer.elicit = ({ requestedSchema }) => {
      properties = requestedSchema.properties;
      return { action: 'accept', content: fill(requestedSchema) };
    };
    await call('test_elicitation_sep1034_defaults', {});
    const told = Object.fromEntries(Object.entries(properties).map(([name, p]) => [name, [p.type, p.default]]));
    assert.deepEqual(told, {
      name: ['string', 'John Doe'], age: ['integer', 30], score: ['number', 95.5], status: ['string', 'active'],
      verified: ['boolean', true],
    });
    assert.deepEqual(properties.status.enum, ['active', 'inactive', 'pending']);
  },

  async elicitation_enums({ call, answer }) {
    let properties;
    answer.elicit = ({ requestedSchema }) => {
      properties = requestedSchema.properties;
      return { action: 'accept', content: fill(requestedSchema) };
    };
    await call('test_elicitation_sep1330_enums', {});
    assert.deepEqual(properties.untitledSingle.enum, ['option1', 'option2', 'option3']);
    assert.deepEqual(properties.titledSingle.oneOf.map((choice) => choice.const), ['value1', 'value2', 'value3']);
    assert.deepEqual([properties.legacyEnum.enum.length, properties.legacyEnum.enumNames.length], [3, 3]);
    assert.deepEqual(properties.untitledMulti.items.enum, ['option1', 'option2', 'option3']);
    assert.deepEqual(properties.titledMulti.items.anyOf.map((choice) => choice.const), ['value1', 'value2', 'value3']);
  },

  async sampling({ call, answer }) {
    let asked;
    answer.sample = (params) => {
      asked = params;
      return { role: 'assistant', model: 'driver', content: { type: 'text', text: 'forty-two' }, stopReason: 'endTurn' };
    };
    assert.equal(textOf(await call('test_sampling', { prompt: 'The answer?' })), 'LLM response: forty-two');
    const [message] = asked.messages;
    const content = Array.isArray(message.content) ? message.content[0] : message.content;
    assert.deepEqual([message.role, content.text, asked.maxTokens], ['user', 'The answer?', 100]);
  },

  async roots({ call }) {
    assert.equal(textOf(await call('list_roots', {})), ROOTS.map((root) => root.uri).join('\n'));
  },

  async logging({ call, client, era, seen }) {
    const told = async (level) => {
      const from = seen.length;
      if (era === 'legacy') await client.setLoggingLevel(level);
      const meta = era === 'modern' && level ? { 'io.modelcontextprotocol/logLevel': level } : undefined;
      await call('test_tool_with_logging', {}, {}, meta);
      await settled();
      return seen.slice(from).filter((n) => n.method === 'notifications/message');
    };
    const messages = await told(INFO);
    includes(messages.map((n) => n.params.data), ['Tool execution started', 'Tool processing data', 'Tool execution completed']);
    for (const { params } of messages) assert.equal(params.level, INFO);
    assert.deepEqual(await told(ERROR), [], 'messages below the level that was set');
    if (era === 'modern') assert.deepEqual(await told(null), [], 'messages without a log level');
  },
};

const legacyChecks = {
  async ping({ client }) {
    await client.ping();
  },
};

const modernChecks = {
  async input_required({ call, answer }) {
    answer.elicit = () => ({ action: 'accept', content: { name: 'Ada' } });
    assert.equal(textOf(await call('test_input_required_result_elicitation', {})), 'Hello, Ada!');
    assert.match(textOf(await call('test_input_required_result_request_state', {})), /state-ok/);
  },

  async input_required_many({ call, answer }) {
    let asked = 0;
    answer.elicit = ({ requestedSchema }) => (asked++, { action: 'accept', content: fill(requestedSchema) });
    answer.sample = () => (asked++, { role: 'assistant', model: 'driver', content: { type: 'text', text: 'ok' } });
    assert.ok(!(await call('test_input_required_result_multi_round', {})).isError);
    assert.ok(asked >= 2, `asked ${asked} times in test_input_required_result_multi_round`);
    asked = 0;
    assert.ok(!(await call('test_input_required_result_multiple_inputs', {})).isError);
    assert.ok(asked >= 2, `asked ${asked} times in test_input_required_result_multiple_inputs`);
  },
};

// Over Streamable HTTP.
const webChecks = {
  // Legacy: the stream of the answer ends in the middle of the call, and the SDK must come back for the rest.
  async resumed({ call }) {
    assert.equal(textOf(await call('test_reconnection', {})), 'Reconnection test completed successfully');
    const several = await Promise.all([1, 2, 3].map(() => call('test_reconnection', {})));
    assert.deepEqual(several.map(textOf), Array(3).fill('Reconnection test completed successfully'));
  },

  async many_kinds_at_once({ call, answer }) {
    answer.elicit = ({ requestedSchema }) => ({ action: 'accept', content: fill(requestedSchema) });
    answer.sample = () => ({ role: 'assistant', model: 'driver', content: { type: 'text', text: 'ok' } });
    const calls = Array.from({ length: 6 }, (_, i) => [
      call('echo', { message: `${i}` }), call('sleep', { ms: 20 * i }), call('progress', { steps: 3 }, { onprogress() {} }),
      call('test_elicitation', { message: `${i}` }), call('test_sampling', { prompt: `${i}` }), call('big', { bytes: 100_000 }),
    ]).flat();
    for (const result of await Promise.all(calls)) assert.ok(!result.isError && result.content[0].text, JSON.stringify(result));
  },
};

const modernWebChecks = {
  // An argument that travels in a header too; what a header cannot hold is encoded.
  async mirrored_argument({ call, client }) {
    await every((cursor) => client.listTools(cursor), 'tools');
    for (const region of ['eu-west-1', 'Zürich', ' padded ', '=?base64?eA==?=']) {
      assert.equal(textOf(await call('test_x_mcp_header', { region })), `Region: ${region}`);
    }
    assert.equal(textOf(await call('test_x_mcp_header', {})), 'Region: none');
  },
};

const sessionChecks = {
  // The SDKs hand the 404 to their user, who connects anew.
  async forgotten_session(peer) {
    const before = peer.session();
    assert.ok(before, 'no session');
    assert.ok((await fetch(peer.forget, { method: 'POST' })).ok, 'nothing was forgotten');
    assert.equal(await peer.call('echo', { message: 'lost' }).then(() => 'answered', peer.statusOf), 404);
    await peer.connect();
    assert.equal(textOf(await peer.call('echo', { message: 'found' })), 'found');
    assert.ok(peer.session() && peer.session() !== before, 'the session is not a new one');
  },
};

const stdioClosing = {
  // The SDKs close stdin, wait 2 s for the server to leave and only then signal it.
  async closes_with_stdin({ client }) {
    const started = performance.now();
    await client.close();
    const ms = performance.now() - started;
    assert.ok(ms < 1_900, `the server was still there ${Math.round(ms)} ms after its stdin closed`);
  },
};

const webClosing = {
  async closes({ client, terminate }) {
    await terminate?.();
    await client.close();
  },
};

/** All items of a paginated list, which must not repeat one. */
export async function every(list, key) {
  const items = [];
  for (let cursor; ;) {
    const page = await list(cursor === undefined ? undefined : { cursor });
    items.push(...page[key]);
    cursor = page.nextCursor;
    if (cursor === undefined) break;
  }
  const names = items.map((item) => item.uri ?? item.uriTemplate ?? item.name);
  assert.equal(new Set(names).size, names.length, `repeated: ${names}`);
  return items;
}

export function textOf(result) {
  assert.ok(!result.isError, `isError: ${result.content?.[0]?.text}`);
  assert.deepEqual(result.content.map((block) => block.type), ['text']);
  return result.content[0].text;
}

export function includes(actual, wanted) {
  const missing = wanted.filter((item) => !actual.includes(item));
  assert.deepEqual(missing, [], `missing ${missing} in ${actual}`);
}

export async function rejects(call, code) {
  const error = await call.then((result) => { throw new Error(`accepted: ${JSON.stringify(result).slice(0, 200)}`); }, (e) => e);
  assert.equal(error.code, code, error.message);
  return error;
}

export async function until(seen, from, method) {
  for (const end = performance.now() + EVENT_MS_MAX; performance.now() < end; await sleep(5)) {
    const found = seen.slice(from).find((n) => n.method === method);
    if (found) return found;
  }
  throw new Error(`no ${method} within ${EVENT_MS_MAX} ms`);
}

async function silence(seen, from, method) {
  await sleep(SILENCE_MS);
  assert.deepEqual(seen.slice(from).filter((n) => n.method === method), [], `${method} without a subscription`);
}

/** Lets the notifications that came with a response be dispatched. */
export const settled = () => sleep(20);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

function within(ms, name, work) {
  return Promise.race([work, sleep(ms).then(() => { throw new Error(`${name} took longer than ${ms} ms`); })]);
}
