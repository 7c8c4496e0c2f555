// Drives a server through the TypeScript SDK 1.x client, which speaks the legacy era only.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
  ProgressNotificationSchema, ResourceUpdatedNotificationSchema, ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { parse, ROOTS, run } from '../checks.mjs';

const { command, args, only } = parse(process.argv.slice(2), ['legacy']);
const seen = [];
const answer = {};

const client = new Client(
  { name: 'drive-ts1', version: '1.0.0' },
  { capabilities: { elicitation: {}, sampling: {}, roots: { listChanged: true } } },
);
client.setRequestHandler(ElicitRequestSchema, ({ params }) => answer.elicit(params));
client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => answer.sample(params));
client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: ROOTS }));
for (const schema of [
  LoggingMessageNotificationSchema, ProgressNotificationSchema, ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
]) client.setNotificationHandler(schema, (notification) => void seen.push(notification));
await client.connect(new StdioClientTransport({ command, args }));

await run({
  era: 'legacy',
  notFound: -32002,
  client,
  seen,
  answer,
  call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
  async watch({ resourceSubscriptions = [] }, body) {
    for (const uri of resourceSubscriptions) await client.subscribeResource({ uri });
    await body();
    for (const uri of resourceSubscriptions) await client.unsubscribeResource({ uri });
  },
}, only);
