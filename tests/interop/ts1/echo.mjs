// A server on the TypeScript SDK 1.x: `echo.mjs`, over stdio, or `echo.mjs http|sse PORT`.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { SubscribeRequestSchema, UnsubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { Events } from '../reference.mjs';

const text = (text) => ({ content: [{ type: 'text', text }] });
const sleep = (ms, signal) => new Promise((done, gone) => {
  const timer = setTimeout(done, ms);
  signal?.addEventListener('abort', () => (clearTimeout(timer), cancelled++, gone(new Error('cancelled'))));
});
let cancelled = 0;
const NOTE = 'memo://note';

function newServer() {
  const server = new McpServer({ name: 'echo-ts1', version: '1.0.0' });
  const tool = (name, inputSchema, run) => server.registerTool(name, { description: name, inputSchema }, run);
  server.registerTool(
    'echo',
    { description: 'Says the message back.', inputSchema: { message: z.string() } },
    ({ message }) => text(message),
  );
  server.registerTool(
    'add',
    { description: 'Adds two numbers.', inputSchema: { a: z.number(), b: z.number() } },
    ({ a, b }) => text(String(a + b)),
  );
  if (process.argv[2]) {
    tool('steps', { count: z.number() }, async ({ count }, { _meta, sendNotification }) => {
      for (let progress = 1; progress <= count; progress++) {
        await sendNotification({ method: 'notifications/progress', params: { progressToken: _meta.progressToken, progress } });
      }
      return text('done');
    });
    tool('sleep', { ms: z.number() }, async ({ ms }, { signal }) => (await sleep(ms, signal), text('slept')));
    tool('cancelled', {}, () => text(String(cancelled)));
    tool('ask', {}, async () => {
      const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
      const { action, content } = await server.server.elicitInput({ message: 'Who are you?', requestedSchema });
      return text(`${action} ${content?.name}`);
    });
    tool('change', {}, () => (tool('extra', {}, () => text('extra')), text('changed')));
    const subscribed = new Set();
    server.registerResource('note', NOTE, {}, () => ({ contents: [{ uri: NOTE, text: 'A note.' }] }));
    server.server.registerCapabilities({ resources: { subscribe: true } });
    server.server.setRequestHandler(SubscribeRequestSchema, ({ params }) => (subscribed.add(params.uri), {}));
    server.server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => (subscribed.delete(params.uri), {}));
    tool('touch', {}, async () => {
      if (subscribed.has(NOTE)) await server.server.sendResourceUpdated({ uri: NOTE });
      return text('touched');
    });
    tool('leave', {}, async (_args, { closeSSEStream }) => {
      closeSSEStream?.();
      await sleep(100);
      return text('came back');
    });
  }
  return server;
}

const sessions = {};

async function http(request, response) {
  const id = request.headers['mcp-session-id'];
  if (id && !sessions[id]) return response.writeHead(404).end();
  if (id) return sessions[id].handleRequest(request, response);
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: new Events(),
    retryInterval: 50,
    onsessioninitialized: (id) => void (sessions[id] = transport),
  });
  await newServer().connect(transport);
  return transport.handleRequest(request, response);
}

async function sse(request, response) {
  if (request.method === 'POST') {
    const transport = sessions[new URL(request.url, 'http://localhost').searchParams.get('sessionId')];
    return transport ? transport.handlePostMessage(request, response) : response.writeHead(404).end();
  }
  const transport = new SSEServerTransport('/message', response);
  sessions[transport.sessionId] = transport;
  return newServer().connect(transport);
}

const [, , kind, port] = process.argv;
if (kind) createServer(kind === 'sse' ? sse : http).listen(Number(port), '127.0.0.1');
else await newServer().connect(new StdioServerTransport());
