// What the conformance suite wants of a server, for both TypeScript SDKs. What differs between them is in `sdk`:
//   ResourceTemplate, completable, string()
//   schema(fields)            of a tool's or a prompt's arguments
//   json(schema)              the same from JSON Schema
//   notify(context, message)  on the stream of the call
//   token(context)            of its progress
//   logs(context)             whether the client wants to hear
//   leave(context)            the stream, in the middle of the call
//   ask(context, rounds)      each round is a map of requests; `{ answers }`, or the `{ result }` that asks for them
//   declares(context, name)   whether the client has this capability
//   changed(kind)             tells those who listen that the list of tools or prompts is another
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const text = (text) => ({ content: [{ type: 'text', text }] });
const user = (content) => ({ role: 'user', content });
const message = (text) => ({ messages: [user({ type: 'text', text })] });

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=';
const image = { type: 'image', data: PNG, mimeType: 'image/png' };
const embedded = (uri, mimeType, text) => ({ type: 'resource', resource: { uri, mimeType, text } });

/** Each kind of content. */
const CONTENTS = {
  test_simple_text: text('This is a simple text response for testing.'),
  test_image_content: { content: [image] },
  test_audio_content: { content: [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }] },
  test_embedded_resource: { content: [embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')] },
  test_multiple_content_types: {
    content: [
      { type: 'text', text: 'Multiple content types test:' }, image,
      embedded('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
    ],
  },
  test_error_handling: { isError: true, ...text('This tool intentionally returns an error for testing') },
};

const JSON_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: { address: { $anchor: 'addressDef', type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } } },
  properties: {
    name: { type: 'string' }, address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] }, phone: { type: 'string' }, email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
};
const HEADER_SCHEMA = { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Region' } } };

const elicit = (message, properties, required = []) => ({
  method: 'elicitation/create', params: { mode: 'form', message, requestedSchema: { type: 'object', properties, required } },
});
const field = (name) => elicit(`What is your ${name}?`, { [name]: { type: 'string' } }, [name]);
const sample = (prompt) => ({ method: 'sampling/createMessage', params: { ...message(prompt), maxTokens: 100 } });
const ROOTS = { method: 'roots/list', params: {} };

const TITLED = ['First', 'Second', 'Third'].map((name, i) => ({ const: `value${i + 1}`, title: `${name} Option` }));
const OPTIONS = { type: 'string', enum: ['option1', 'option2', 'option3'] };
const DEFAULTS = {
  name: { type: 'string', default: 'John Doe' },
  age: { type: 'integer', default: 30 },
  score: { type: 'number', default: 95.5 },
  status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
  verified: { type: 'boolean', default: true },
};
const ENUMS = {
  untitledSingle: OPTIONS,
  titledSingle: { type: 'string', oneOf: TITLED },
  legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
  untitledMulti: { type: 'array', items: OPTIONS },
  titledMulti: { type: 'array', items: { anyOf: TITLED } },
};

const said = ({ content }) => content?.text;
const response = ({ action, content }) => `User response: action=${action}, content=${JSON.stringify(content)}`;

/** What a tool asks, round by round, and what it says when it knows. */
const QUESTIONS = {
  test_elicitation_sep1034_defaults: [[{ form: elicit('Please review the defaults', DEFAULTS) }], ({ form }) => response(form)],
  test_elicitation_sep1330_enums: [[{ form: elicit('Please choose', ENUMS) }], ({ form }) => response(form)],
  test_missing_capability: [[{ capital: sample('Say something.') }], ({ capital }) => said(capital)],
  test_streaming_elicitation: [[{ user_name: field('name') }], ({ user_name }) => `Hello, ${user_name.content?.name}!`],
  test_input_required_result_elicitation: [[{ user_name: field('name') }], ({ user_name }) => `Hello, ${user_name.content?.name}!`],
  test_input_required_result_sampling: [[{ capital: sample('What is the capital of France?') }], ({ capital }) => said(capital)],
  test_input_required_result_list_roots: [[{ client_roots: ROOTS }], ({ client_roots }) => `${client_roots.roots?.length} roots`],
  test_input_required_result_request_state: [[{ confirm: field('ok') }], () => 'state-ok'],
  test_input_required_result_tampered_state: [[{ confirm: field('ok') }], () => 'state-ok'],
  test_input_required_result_multiple_inputs: [
    [{ user_name: field('name'), greeting: sample('Generate a greeting.'), client_roots: ROOTS }],
    ({ user_name, greeting }) => `${said(greeting)} ${user_name.content?.name}`,
  ],
  test_input_required_result_multi_round: [
    [{ step1: field('name') }, { step2: field('color') }],
    ({ step1, step2 }) => `${step1.content?.name} likes ${step2.content?.color}`,
  ],
};

/** What the two tools of this name have done to the lists, in this process. */
const there = { tool: false, prompt: false };

/** Gives a server everything. */
export function offer(server, sdk) {
  const tool = (name, run, inputSchema) => server.registerTool(name, { description: `The suite's ${name}.`, inputSchema }, run);
  const asking = (rounds, say) => async (context) => {
    const { answers, result } = await sdk.ask(context, rounds);
    return result ?? text(say(answers));
  };
  for (const [name, result] of Object.entries(CONTENTS)) tool(name, () => result);
  for (const [name, [rounds, say]] of Object.entries(QUESTIONS)) tool(name, asking(rounds, say));
  const askedFor = (name, request, say) => (args, context) => asking([{ it: request(args[name]) }], ({ it }) => say(it))(context);
  const USER = { username: { type: 'string' }, email: { type: 'string' } };
  const whoIs = (message) => elicit(message, USER, Object.keys(USER));
  tool('test_sampling', askedFor('prompt', sample, (it) => `LLM response: ${said(it)}`), sdk.schema({ prompt: sdk.string() }));
  tool('test_elicitation', askedFor('message', whoIs, response), sdk.schema({ message: sdk.string() }));
  tool('test_input_required_result_capabilities', (context) => {
    const asked = {};
    if (sdk.declares(context, 'elicitation')) asked.user_name = field('name');
    if (sdk.declares(context, 'sampling')) asked.greeting = sample('Greet.');
    return asking([asked], () => 'done')(context);
  });
  notifying(tool, sdk);
  tool('json_schema_2020_12_tool', (args) => text(JSON.stringify(args)), sdk.json(JSON_SCHEMA));
  tool('test_x_mcp_header', ({ region }) => text(`Region: ${region}`), sdk.json(HEADER_SCHEMA));
  resources(server, sdk);
  prompts(server, sdk);
  changing(server, tool, sdk);
}

function notifying(tool, sdk) {
  const log = (context, data) => sdk.notify(context, { method: 'notifications/message', params: { level: 'info', data } });
  tool('test_tool_with_logging', async (context) => {
    for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
      await log(context, data);
      await sleep(50);
    }
    return text('logged');
  });
  tool('test_logging_tool', async (context) => {
    if (sdk.logs(context)) await log(context, 'Logging tool executed');
    return text('logged');
  });
  tool('test_tool_with_progress', async (context) => {
    for (const progress of [0, 50, 100]) {
      const params = { progressToken: sdk.token(context), progress, total: 100 };
      await sdk.notify(context, { method: 'notifications/progress', params });
      await sleep(20);
    }
    return text('done');
  });
  tool('test_reconnection', async (context) => {
    sdk.leave(context);
    await sleep(100);
    return text('came back');
  });
}

function resources(server, sdk) {
  const one = (name, uri, mimeType, content) => server.registerResource(
    name, uri, { description: `The suite's ${name} resource.`, mimeType }, () => ({ contents: [{ uri, mimeType, ...content }] }),
  );
  one('static-text', 'test://static-text', 'text/plain', { text: 'This is the content of the static text resource.' });
  one('static-binary', 'test://static-binary', 'image/png', { blob: PNG });
  one('watched', 'test://watched-resource', 'text/plain', { text: 'Watched resource content' });
  const template = new sdk.ResourceTemplate('test://template/{id}/data', { list: undefined });
  const mimeType = 'application/json';
  server.registerResource('template', template, { description: 'Data by its ID.', mimeType }, ({ href }, { id }) => {
    const data = { id, templateTest: true, data: `Data for ID: ${id}` };
    return { contents: [{ uri: href, mimeType, text: JSON.stringify(data) }] };
  });
}

function prompts(server, sdk) {
  const prompt = (name, run, argsSchema) => server.registerPrompt(name, { description: `The suite's ${name}.`, argsSchema }, run);
  prompt('test_simple_prompt', () => message('This is a simple prompt for testing.'));
  prompt('test_prompt_with_arguments', ({ arg1, arg2 }) => message(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`),
    sdk.schema({ arg1: sdk.completable(sdk.string(), () => ['paris', 'park']), arg2: sdk.string() }));
  prompt('test_prompt_with_embedded_resource', ({ resourceUri }) => ({
    messages: [
      user(embedded(resourceUri, 'text/plain', 'Embedded resource content for testing.')), ...message('Please process it.').messages,
    ],
  }), sdk.schema({ resourceUri: sdk.string() }));
  prompt('test_prompt_with_image', () => ({ messages: [user(image), ...message('Please analyze it.').messages] }));
  prompt('test_input_required_result_prompt', async (context) => {
    const { answers, result } = await sdk.ask(context, [{ user_context: field('context') }]);
    return result ?? message(`Context: ${answers.user_context.content?.context}`);
  });
}

/** Tools that make another tool, and a prompt, come and go. */
function changing(server, tool, sdk) {
  const items = {
    tool: tool('dynamic_tool', () => text('here for a while')),
    prompt: server.registerPrompt('dynamic_prompt', { description: 'Comes and goes.' }, () => message('here for a while')),
  };
  for (const [kind, item] of Object.entries(items)) {
    if (!there[kind]) item.disable();
    tool(`test_trigger_${kind}_change`, () => {
      there[kind] = !there[kind];
      item.update({ enabled: there[kind] });
      sdk.changed?.(kind);
      return text(`dynamic_${kind} is ${there[kind] ? 'there' : 'gone'}`);
    });
  }
}

/** Events are numbered through; a stream is resumed after one of its own. */
export class Events {
  all = [];
  async storeEvent(stream, message) {
    return String(this.all.push({ stream, message }));
  }
  async getStreamIdForEventId(id) {
    return this.all[id - 1]?.stream;
  }
  async replayEventsAfter(last, { send }) {
    const { stream } = this.all[last - 1];
    for (const [i, event] of this.all.entries()) {
      if (i >= last && event.stream === stream && event.message.jsonrpc) await send(String(i + 1), event.message);
    }
    return stream;
  }
}

/** Answers only on names of this machine: a page of another must not reach it. Says its URL. */
export function listen(server, handle) {
  const own = /^(https?:\/\/)?(localhost|127\.0\.0\.1)(:\d+)?$/;
  server.on('request', (request, response) => {
    const { host, origin } = request.headers;
    if (own.test(host) && (!origin || own.test(origin))) handle(request, response);
    else response.writeHead(403).end();
  });
  server.listen(0, '127.0.0.1', () => console.log(`http://localhost:${server.address().port}/mcp`));
}
