// Drives a server through the TypeScript SDK 2.x client: `legacy` is its plain handshake, `modern` is pinned to 2026-07-28.
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { parse, ROOTS, run } from '../checks.mjs';

const { era, command, args, only } = parse(process.argv.slice(2), ['legacy', 'modern', 'auto']);
const seen = [];
const answer = {};

const client = new Client(
  { name: 'drive-ts2', version: '1.0.0' },
  {
    capabilities: { elicitation: {}, sampling: {}, roots: { listChanged: true } },
    versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : era },
  },
);
client.setRequestHandler('elicitation/create', ({ params }) => answer.elicit(params));
client.setRequestHandler('sampling/createMessage', ({ params }) => answer.sample(params));
client.setRequestHandler('roots/list', () => ({ roots: ROOTS }));
for (const method of [
  'notifications/message', 'notifications/progress', 'notifications/resources/updated', 'notifications/tools/list_changed',
]) client.setNotificationHandler(method, (notification) => void seen.push(notification));
await client.connect(new StdioClientTransport({ command, args }));

await run({
  era: client.getProtocolEra(), // after `auto`: what the probe found
  notFound: -32602, // the SDK turns the legacy -32002 into it
  client,
  seen,
  answer,
  call: (name, args, options, meta) => client.callTool({ name, arguments: args, ...(meta && { _meta: meta }) }, options),
  async watch(filter, body) {
    if (client.getProtocolEra() === 'modern') {
      const subscription = await client.listen(filter);
      await body();
      return subscription.close();
    }
    for (const uri of filter.resourceSubscriptions ?? []) await client.subscribeResource({ uri });
    await body();
    for (const uri of filter.resourceSubscriptions ?? []) await client.unsubscribeResource({ uri });
  },
}, only);
