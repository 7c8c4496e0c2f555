// The conformance suite's server on the TypeScript SDK 2.x: `reference.mjs`, over stdio, or `reference.mjs http`, which says its URL.
// It speaks both eras: the client's opening decides. Over HTTP older clients have sessions. With `legacy` or `modern` it speaks only
// the older or the newer.
import { randomBytes, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  CLIENT_CAPABILITIES_META_KEY, completable, createMcpHandler, createRequestStateCodec, fromJsonSchema, inputRequired,
  isLegacyRequest, LOG_LEVEL_META_KEY, McpServer, ResourceTemplate, WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { Events, listen, offer } from '../reference.mjs';

const states = createRequestStateCodec({ key: randomBytes(32) });

function newServer({ era }) {
  const isModern = era === 'modern';
  const server = new McpServer({ name: 'reference-ts2', version: '1.0.0' }, {
    capabilities: { logging: {}, resources: { subscribe: true } },
    requestState: { verify: states.verify },
  });
  const declared = ({ mcpReq }) => isModern ? mcpReq.envelope?.[CLIENT_CAPABILITIES_META_KEY] : server.server.getClientCapabilities();
  offer(server, {
    ResourceTemplate,
    completable,
    declares: (context, name) => declared(context)?.[name],
    string: () => z.string(),
    schema: (fields) => z.object(fields),
    json: fromJsonSchema,
    notify: ({ mcpReq }, message) => mcpReq.notify(message),
    token: ({ mcpReq }) => mcpReq._meta?.progressToken ?? 0,
    logs: ({ mcpReq }) => !isModern || mcpReq.envelope?.[LOG_LEVEL_META_KEY],
    leave: ({ http }) => http?.closeSSE?.(),
    changed: (kind) => modern?.notify[`${kind}sChanged`](),
    // The SDK makes requests of these for an older client.
    async ask(context, rounds) {
      const known = context.mcpReq.requestState() ?? {};
      const answers = { ...known, ...context.mcpReq.inputResponses };
      for (const round of rounds) {
        const open = Object.entries(round).filter(([key]) => !answers[key]);
        if (open.length === 0) continue;
        return { result: inputRequired({ inputRequests: Object.fromEntries(open), requestState: await states.mint(answers) }) };
      }
      return { answers };
    },
  });
  server.server.setRequestHandler('resources/subscribe', () => ({}));
  server.server.setRequestHandler('resources/unsubscribe', () => ({}));
  return server;
}

const sessions = {};

async function legacy(request) {
  const id = request.headers.get('mcp-session-id');
  if (id) return sessions[id]?.handleRequest(request) ?? new Response(null, { status: 404 });
  const transport = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: new Events(),
    retryInterval: 1000,
    onsessioninitialized: (id) => void (sessions[id] = transport),
    onsessionclosed: (id) => void delete sessions[id],
  });
  await newServer({ era: 'legacy' }).connect(transport);
  return transport.handleRequest(request);
}

const era = ['legacy', 'modern'].find((era) => process.argv.includes(era)) ?? 'auto';
const isHttp = process.argv.includes('http');
const modern = isHttp ? createMcpHandler(newServer, { legacy: 'reject' }) : undefined;
const speaks = {
  legacy,
  auto: async (request) => (await isLegacyRequest(request)) ? legacy(request) : modern.fetch(request),
  modern: modern?.fetch,
};
if (isHttp) listen(createServer(), toNodeHandler({ fetch: speaks[era] }));
else if (era === 'legacy') await newServer({ era }).connect(new StdioServerTransport());
else serveStdio(newServer, { legacy: era === 'modern' ? 'reject' : 'serve' });
