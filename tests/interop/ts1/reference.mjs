// The conformance suite's server on the TypeScript SDK 1.x: `reference.mjs`, over stdio, or `reference.mjs http`, which says its URL.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import {
  CreateMessageResultSchema, ElicitResultSchema, ListRootsResultSchema, ListToolsRequestSchema, SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { Events, listen, offer } from '../reference.mjs';

const ANSWERS = {
  'elicitation/create': ElicitResultSchema, 'sampling/createMessage': CreateMessageResultSchema, 'roots/list': ListRootsResultSchema,
};

function newServer() {
  const capabilities = { logging: {}, resources: { subscribe: true } };
  const server = new McpServer({ name: 'reference-ts1', version: '1.0.0' }, { capabilities });
  const schemas = [];
  offer(server, {
    ResourceTemplate,
    completable,
    string: () => z.string(),
    schema: (fields) => fields,
    json: (schema) => (schemas.push(schema), z.looseObject({ marker: z.literal(schemas.length).optional() })),
    notify: ({ sendNotification }, message) => sendNotification(message),
    token: ({ _meta }) => _meta?.progressToken ?? 0,
    logs: () => true,
    leave: ({ closeSSEStream }) => closeSSEStream?.(),
    declares: (_context, name) => server.server.getClientCapabilities()?.[name],
    async ask({ sendRequest }, rounds) {
      const answers = {};
      for (const [key, request] of rounds.flatMap(Object.entries)) answers[key] = await sendRequest(request, ANSWERS[request.method]);
      return { answers };
    },
  });
  listAsIs(server.server, schemas);
  server.server.setRequestHandler(SubscribeRequestSchema, () => ({}));
  server.server.setRequestHandler(UnsubscribeRequestSchema, () => ({}));
  return server;
}

/** This SDK takes no JSON Schema, so what it lists for those is put right on its way out. */
function listAsIs(server, schemas) {
  const list = server._requestHandlers.get('tools/list');
  server.setRequestHandler(ListToolsRequestSchema, async (request, extra) => {
    const { tools, ...rest } = await list(request, extra);
    const schema = (tool) => schemas[tool.inputSchema.properties?.marker?.const - 1];
    return { tools: tools.map((tool) => ({ ...tool, inputSchema: schema(tool) ?? tool.inputSchema })), ...rest };
  });
}

const sessions = {};

async function http(request, response) {
  const id = request.headers['mcp-session-id'];
  if (id && !sessions[id]) return response.writeHead(404).end();
  if (id) return sessions[id].handleRequest(request, response);
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: new Events(),
    retryInterval: 1000,
    onsessioninitialized: (id) => void (sessions[id] = transport),
    onsessionclosed: (id) => void delete sessions[id],
  });
  await newServer().connect(transport);
  return transport.handleRequest(request, response);
}

if (process.argv[2] === 'http') listen(createServer(), http);
else await newServer().connect(new StdioServerTransport());
