// What both TypeScript drivers check through a gateway with five servers behind it, which nobody here wrote: `everything`,
// `filesystem` and `time` are the official ones, `rmcp` and `python` the echo programs of those SDKs. A driver passes the `peer`
// that checks.mjs describes, connected to the endpoint of all servers; those of one server are beside it.
import assert from 'node:assert/strict';
import { every, fill, includes, rejects, settled, textOf, until } from './checks.mjs';

const FEATURES = 'demo://resource/static/document/features.md';

export const behind = {
  async identity({ client, era }) {
    assert.ok(client.getServerVersion()?.name, 'no name');
    const offered = client.getServerCapabilities();
    for (const capability of ['tools', 'resources', 'prompts', 'completions', 'logging']) assert.ok(offered[capability], capability);
    const revision = client.getNegotiatedProtocolVersion?.(); // 2.x only
    if (revision) assert.equal(revision, era === 'modern' ? '2026-07-28' : '2025-11-25');
  },

  async tools_of_all({ client }) {
    const names = (await every((cursor) => client.listTools(cursor), 'tools')).map((tool) => tool.name);
    includes(names, [
      'get-sum', 'get-structured-content', 'read_text_file', 'list_directory', 'get_current_time', 'convert_time',
      'everything__echo', 'rmcp__echo', 'python__echo', 'rmcp__add', 'python__add',
    ]);
    assert.ok(!names.includes('echo') && !names.includes('add'), 'a name that several servers have');
  },

  async calls_to_all({ call }) {
    assert.equal(textOf(await call('everything__echo', { message: 'ünïcødé 🦀' })), 'Echo: ünïcødé 🦀');
    assert.equal(textOf(await call('get-sum', { a: 2, b: 40 })), 'The sum of 2 and 40 is 42.');
    for (const server of ['rmcp', 'python']) {
      assert.equal(textOf(await call(`${server}__echo`, { message: server })), server);
      assert.equal(textOf(await call(`${server}__add`, { a: 2, b: 40 })), '42');
    }
    const noon = { source_timezone: 'UTC', time: '12:00', target_timezone: 'Asia/Tokyo' };
    assert.match(textOf(await call('convert_time', noon)), /T21:00:00\+09:00/);
    assert.match(textOf(await call('list_allowed_directories', {})), /^Allowed directories:\n\//);
  },

  async structured_content({ call }) {
    const { structuredContent } = await call('get-structured-content', { location: 'New York' });
    assert.deepEqual(structuredContent, { temperature: 33, conditions: 'Cloudy', humidity: 82 });
  },

  async concurrent_calls({ call }) {
    const calls = Array.from({ length: 10 }, (_, i) => [
      call('rmcp__echo', { message: `${i}` }), call('python__echo', { message: `${i}` }), call('get-sum', { a: i, b: 0 }),
    ]);
    const texts = (await Promise.all(calls.flat())).map(textOf);
    assert.deepEqual(texts, calls.flatMap((_, i) => [`${i}`, `${i}`, `The sum of ${i} and 0 is ${i}.`]));
  },

  async progress({ call, seen }) {
    const from = seen.length;
    await call('trigger-long-running-operation', { duration: 0.3, steps: 3 }, { onprogress() {} });
    await settled();
    const told = seen.slice(from).filter((n) => n.method === 'notifications/progress');
    assert.deepEqual(told.map(({ params }) => [params.progress, params.total]), [[1, 3], [2, 3], [3, 3]]);
  },

  async cancel({ call }) {
    const stop = new AbortController();
    const working = call('trigger-long-running-operation', { duration: 1, steps: 1 }, { signal: stop.signal });
    setTimeout(() => stop.abort('enough'), 100);
    await assert.rejects(working);
    assert.equal(textOf(await call('everything__echo', { message: 'still here' })), 'Echo: still here');
  },

  async resources({ client }) {
    const listed = await every((cursor) => client.listResources(cursor), 'resources');
    includes(listed.map((resource) => resource.uri), [FEATURES]);
    const templates = await every((cursor) => client.listResourceTemplates(cursor), 'resourceTemplates');
    includes(templates.map((template) => template.uriTemplate), ['demo://resource/dynamic/text/{resourceId}']);
    const [features] = (await client.readResource({ uri: FEATURES })).contents;
    assert.ok(features.uri === FEATURES && features.text.length > 1_000, JSON.stringify(features).slice(0, 200));
    const [dynamic] = (await client.readResource({ uri: 'demo://resource/dynamic/text/7' })).contents;
    assert.match(dynamic.text, /Resource 7/);
  },

  async resource_updated({ call, seen, watch }) {
    await watch({ resourceSubscriptions: [FEATURES] }, async () => {
      // The gateway answers a subscription by itself; its server has heard of it before it hears of a later call.
      await call('everything__echo', { message: 'settled' });
      const from = seen.length;
      // A worker that another driver left on is first turned off.
      const toggle = async () => textOf(await call('toggle-subscriber-updates', {}));
      while (!(await toggle()).startsWith('Started'));
      const { params } = await until(seen, from, 'notifications/resources/updated');
      assert.equal(params.uri, FEATURES);
      await toggle();
    });
  },

  async resources_changed({ call, client, seen, watch }) {
    const name = `${process.pid}.gz`;
    let link;
    await watch({ resourcesListChanged: true }, async () => {
      const from = seen.length;
      const made = await call('gzip-file-as-resource', { name, data: 'data:text/plain,hello', outputType: 'resourceLink' });
      [link] = made.content;
      await until(seen, from, 'notifications/resources/list_changed');
    });
    // What was announced may be what another client has made a moment before.
    const listed = async () => {
      const all = await every((cursor) => client.listResources(cursor, { cacheMode: 'refresh' }), 'resources');
      return all.some((resource) => resource.uri === link.uri);
    };
    while (!(await listed())) await settled();
    assert.ok((await client.readResource({ uri: link.uri })).contents[0].blob, 'no blob');
  },

  async prompts({ client }) {
    const listed = await every((cursor) => client.listPrompts(cursor), 'prompts');
    includes(listed.map((prompt) => prompt.name), ['simple-prompt', 'args-prompt', 'completable-prompt', 'resource-prompt']);
    const { messages } = await client.getPrompt({ name: 'args-prompt', arguments: { city: 'Ulm', state: 'BW' } });
    assert.equal(messages[0].content.text, "What's weather in Ulm, BW?");
  },

  async completion({ client }) {
    const ask = async (argument, context) => (await client.complete({
      ref: { type: 'ref/prompt', name: 'completable-prompt' }, argument, ...(context && { context }),
    })).completion.values;
    assert.deepEqual(await ask({ name: 'department', value: 'S' }), ['Sales', 'Support']);
    assert.deepEqual(await ask({ name: 'name', value: '' }, { arguments: { department: 'Support' } }), ['John', 'Kim', 'Lee']);
  },

  async elicitation({ call, answer }) {
    let asked;
    answer.elicit = (params) => {
      asked = params;
      const { name, check } = fill(params.requestedSchema);
      return { action: 'accept', content: { name, check } };
    };
    const { content } = await call('trigger-elicitation-request', {});
    assert.equal(asked.message, 'Please provide inputs for the following fields:');
    assert.deepEqual(asked.requestedSchema.required, ['name']);
    assert.equal(content[1].text, 'User inputs:\n- Name: ada\n- Agreed to terms: true');
    answer.elicit = () => ({ action: 'decline' });
    assert.match((await call('trigger-elicitation-request', {})).content[0].text, /User declined/);
  },

  async sampling({ call, answer }) {
    let asked;
    answer.sample = (params) => {
      asked = params;
      return { role: 'assistant', model: 'driver', content: { type: 'text', text: 'forty-two' }, stopReason: 'endTurn' };
    };
    const text = textOf(await call('trigger-sampling-request', { prompt: 'The answer?', maxTokens: 7 }));
    assert.match(text, /forty-two/);
    assert.equal(asked.maxTokens, 7);
    assert.match(JSON.stringify(asked.messages), /The answer\?/);
  },

  async errors({ call, client }) {
    await rejects(call('echo', { message: 'whose?' }), -32602);
    await rejects(call('rmcp__nothing', {}), -32602);
    await rejects(client.getPrompt({ name: 'nothing' }), -32602);
    await rejects(client.readResource({ uri: 'nobody://knows' }), -32602); // what `everything` says in either era
    const outside = await call('read_text_file', { path: '/etc/passwd' });
    assert.ok(outside.isError && /denied/i.test(outside.content[0].text), JSON.stringify(outside).slice(0, 200));
  },

  // In place of the client of all: at its own endpoint a server's names are its own.
  async own_endpoints(peer) {
    const own = {
      everything: ['echo', { message: 'hi' }, 'Echo: hi'], rmcp: ['echo', { message: 'hi' }, 'hi'],
      python: ['add', { a: 1, b: 1 }, '2'], filesystem: ['list_allowed_directories', {}, 'Allowed directories:'],
      time: ['get_current_time', { timezone: 'UTC' }, '"timezone": "UTC"'],
    };
    for (const [server, [tool, args, text]] of Object.entries(own)) {
      await peer.connect(new URL(`/${server}/mcp`, peer.url));
      const names = (await every((cursor) => peer.client.listTools(cursor), 'tools')).map((tool) => tool.name);
      assert.ok(names.includes(tool) && !names.some((name) => name.includes('__')), `${server}: ${names}`);
      assert.ok(textOf(await peer.call(tool, args)).includes(text), server);
    }
  },
};
