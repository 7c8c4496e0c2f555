// An echo server on the TypeScript SDK 1.x over stdio.
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { z } from 'zod';

const server = new McpServer({ name: 'echo-ts1', version: '1.0.0' });

server.registerTool(
  'echo',
  { description: 'Says the message back.', inputSchema: { message: z.string() } },
  ({ message }) => ({ content: [{ type: 'text', text: message }] }),
);
server.registerTool(
  'add',
  { description: 'Adds two numbers.', inputSchema: { a: z.number(), b: z.number() } },
  ({ a, b }) => ({ content: [{ type: 'text', text: String(a + b) }] }),
);

await server.connect(new StdioServerTransport());
