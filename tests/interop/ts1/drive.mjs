// Drives a server through the TypeScript SDK 1.x client, which speaks the legacy era only.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
  ProgressNotificationSchema, ResourceListChangedNotificationSchema, ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { behind as manyServers } from '../behind.mjs';
import { parse, ROOTS, run } from '../checks.mjs';

const { command, args, only, url, speaks, forget, behind } = parse(process.argv.slice(2), ['legacy']);
const transports = {
  stdio: () => new StdioClientTransport({ command, args }),
  http: (to = url) => new StreamableHTTPClientTransport(to),
  sse: () => new SSEClientTransport(url),
};

const peer = {
  era: 'legacy',
  notFound: -32002,
  speaks,
  forget,
  seen: [],
  answer: {},
  call: (name, args, options) => peer.client.callTool({ name, arguments: args }, undefined, options),
  async watch({ resourceSubscriptions = [] }, body) {
    for (const uri of resourceSubscriptions) await peer.client.subscribeResource({ uri });
    await body();
    for (const uri of resourceSubscriptions) await peer.client.unsubscribeResource({ uri });
  },
  session: () => peer.transport.sessionId,
  statusOf: (error) => error.code, // of a StreamableHTTPError
  terminate: () => peer.transport.terminateSession?.(),
  url,
  async connect(to) {
    await peer.client?.close();
    const client = new Client(
      { name: 'drive-ts1', version: '1.0.0' },
      { capabilities: { elicitation: {}, sampling: {}, roots: { listChanged: true } } },
    );
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => peer.answer.elicit(params));
    client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => peer.answer.sample(params));
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: ROOTS }));
    for (const schema of [
      LoggingMessageNotificationSchema, ProgressNotificationSchema, ResourceUpdatedNotificationSchema,
      ToolListChangedNotificationSchema, ResourceListChangedNotificationSchema,
    ]) client.setNotificationHandler(schema, (notification) => void peer.seen.push(notification));
    peer.client = client;
    peer.transport = transports[speaks](to);
    await client.connect(peer.transport);
  },
};
await peer.connect();
await run(peer, only, behind ? manyServers : undefined);
