// A server on the TypeScript SDK 2.x: `echo.mjs`, over stdio, or `echo.mjs http PORT`. It speaks both eras: the client's opening
// decides; over HTTP it has no sessions in either.
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { acceptedContent, createMcpHandler, inputRequired, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const text = (text) => ({ content: [{ type: 'text', text }] });
const sleep = (ms, signal) => new Promise((done, gone) => {
  const timer = setTimeout(done, ms);
  signal?.addEventListener('abort', () => (clearTimeout(timer), cancelled++, gone(new Error('cancelled'))));
});
const [, , kind, port] = process.argv;
let cancelled = 0;
let changed = false;
const NOTE = 'memo://note';

function newServer() {
  const capabilities = kind && { resources: { subscribe: true } };
  const server = new McpServer({ name: 'echo-ts2', version: '1.0.0' }, { capabilities });
  const tool = (name, fields, run) => server.registerTool(name, { description: name, inputSchema: z.object(fields) }, run);
  server.registerTool(
    'echo',
    { description: 'Says the message back.', inputSchema: z.object({ message: z.string() }) },
    ({ message }) => text(message),
  );
  server.registerTool(
    'add',
    { description: 'Adds two numbers.', inputSchema: z.object({ a: z.number(), b: z.number() }) },
    ({ a, b }) => text(String(a + b)),
  );
  if (!kind) return server;
  tool('steps', { count: z.number() }, async ({ count }, { mcpReq }) => {
    for (let progress = 1; progress <= count; progress++) {
      await mcpReq.notify({ method: 'notifications/progress', params: { progressToken: mcpReq._meta.progressToken, progress } });
    }
    return text('done');
  });
  tool('sleep', { ms: z.number() }, async ({ ms }, { mcpReq }) => (await sleep(ms, mcpReq.signal), text('slept')));
  tool('cancelled', {}, () => text(String(cancelled)));
  tool('ask', {}, (_args, { mcpReq }) => {
    const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
    const who = acceptedContent(mcpReq.inputResponses, 'who');
    if (who) return text(`accept ${who.name}`);
    return inputRequired({ inputRequests: { who: inputRequired.elicit({ message: 'Who are you?', requestedSchema }) } });
  });
  tool('change', {}, () => {
    changed = true;
    handler.notify.toolsChanged();
    return text('changed');
  });
  server.registerResource('note', NOTE, {}, () => ({ contents: [{ uri: NOTE, text: 'A note.' }] }));
  tool('touch', {}, () => (handler.notify.resourceUpdated(NOTE), text('touched')));
  if (changed) tool('extra', {}, () => text('extra'));
  return server;
}

const handler = kind && createMcpHandler(newServer);
if (kind) createServer(toNodeHandler(handler)).listen(Number(port), '127.0.0.1');
else serveStdio(newServer);
