// Drives a server through the TypeScript SDK 2.x client: `legacy` is its plain handshake, `modern` is pinned to 2026-07-28.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { behind as manyServers } from '../behind.mjs';
import { parse, ROOTS, run } from '../checks.mjs';

const { era, command, args, only, url, speaks, forget, behind } = parse(process.argv.slice(2), ['legacy', 'modern', 'auto']);
const transports = {
  stdio: () => new StdioClientTransport({ command, args }),
  http: (to = url) => new StreamableHTTPClientTransport(to),
  sse: () => new SSEClientTransport(url),
};

const peer = {
  get era() { return peer.client.getProtocolEra(); }, // after `auto`: what the probe found
  notFound: -32602, // the SDK turns the legacy -32002 into it
  speaks,
  forget,
  seen: [],
  answer: {},
  call: (name, args, options, meta) => peer.client.callTool({ name, arguments: args, ...(meta && { _meta: meta }) }, options),
  async watch(filter, body) {
    if (peer.era === 'modern') {
      const subscription = await peer.client.listen(filter);
      await body();
      return subscription.close();
    }
    for (const uri of filter.resourceSubscriptions ?? []) await peer.client.subscribeResource({ uri });
    await body();
    for (const uri of filter.resourceSubscriptions ?? []) await peer.client.unsubscribeResource({ uri });
  },
  session: () => peer.transport.sessionId,
  statusOf: (error) => error.status ?? error.data?.status,
  terminate: () => peer.transport.terminateSession?.(),
  url,
  async connect(to) {
    await peer.client?.close();
    const client = new Client(
      { name: 'drive-ts2', version: '1.0.0' },
      {
        capabilities: { elicitation: {}, sampling: {}, roots: { listChanged: true } },
        versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : era },
      },
    );
    client.setRequestHandler('elicitation/create', ({ params }) => peer.answer.elicit(params));
    client.setRequestHandler('sampling/createMessage', ({ params }) => peer.answer.sample(params));
    client.setRequestHandler('roots/list', () => ({ roots: ROOTS }));
    for (const method of [
      'notifications/message', 'notifications/progress', 'notifications/resources/updated', 'notifications/tools/list_changed',
      'notifications/resources/list_changed',
    ]) client.setNotificationHandler(method, (notification) => void peer.seen.push(notification));
    peer.client = client;
    peer.transport = transports[speaks](to);
    await client.connect(peer.transport);
  },
};
await peer.connect();
await run(peer, only, behind ? manyServers : undefined);
