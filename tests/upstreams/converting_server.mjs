// A server made with the official TypeScript SDK, 1.x or 2.x: says what its tools and resources were given.
//
//     node converting_server.mjs 1|2
import { createRequire } from 'node:module';

const peer = createRequire(new URL('../../.peers/node/package.json', import.meta.url));
const { z } = peer('zod');
const is_old = process.argv[2] === '1';
const { McpServer, ResourceTemplate } = peer(is_old ? '@modelcontextprotocol/sdk/server/mcp.js' : '@modelcontextprotocol/server');
const { StdioServerTransport } = peer(
  is_old ? '@modelcontextprotocol/sdk/server/stdio.js' : '@modelcontextprotocol/server/stdio',
);

const says = (given) => ({ content: [{ type: 'text', text: JSON.stringify(given) }] });
const shape = (number, boolean) => {
  const members = {
    count: number.optional(),
    ratio: number.optional(),
    sudo: boolean.optional(),
    paths: z.array(z.string()).optional(),
    options: z.record(z.string(), z.any()).optional(),
    text: z.string().optional(),
    anything: z.any().optional(),
  };
  return is_old ? members : z.object(members);
};

const server = new McpServer({ name: 'converting', version: process.argv[2] });
server.registerTool('typed', { inputSchema: shape(z.number(), z.boolean()) }, async (given) => says(given));
server.registerTool('coerced', { inputSchema: shape(z.coerce.number(), z.stringbool()) }, async (given) => says(given));
const template = new ResourceTemplate('vault://{area}/{name}', { list: undefined });
server.registerResource('vault', template, {}, async (uri, { area, name }) => ({
  contents: [{ uri: uri.href, text: JSON.stringify({ area, name }) }],
}));
await server.connect(new StdioServerTransport());
