// A server of the published TypeScript SDK (2.x) that refuses the older era: over a pipe, or over HTTP with --http.
// Its tools answer with what they are given, and with a list.
import { createRequire } from 'node:module';

// The packages live outside of this directory's parents, where an import would not find them.
const require = createRequire(new URL('../../.peers/node/package.json', import.meta.url));
const { createMcpHandler, fromJsonSchema, McpServer } = require('@modelcontextprotocol/server');
const { serveStdio } = require('@modelcontextprotocol/server/stdio');

function build() {
  const server = new McpServer({ name: 'newer-only', version: '1' }, { capabilities: { tools: {} } });
  const inputSchema = fromJsonSchema({ type: 'object', properties: { word: { type: 'string' } } });
  const outputSchema = fromJsonSchema({ type: 'array', items: { type: 'string' } });
  server.registerTool('echo', { description: 'echoes', inputSchema }, async ({ word }) => ({
    content: [{ type: 'text', text: String(word) }],
  }));
  server.registerTool('list', { description: 'lists', inputSchema, outputSchema }, async () => ({
    content: [{ type: 'text', text: '["a"]' }],
    structuredContent: ['a'],
  }));
  return server;
}

if (process.argv.includes('--http')) {
  const { createServer } = await import('node:http');
  const handler = createMcpHandler(build, { legacy: 'reject' });
  const http = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = chunks.length ? Buffer.concat(chunks) : undefined;
    const url = `http://127.0.0.1${request.url}`;
    const answer = await handler.fetch(new Request(url, { method: request.method, headers: request.headers, body }));
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) for await (const chunk of answer.body) response.write(chunk);
    response.end();
  });
  http.listen(0, '127.0.0.1', () => console.error(`listening on http://127.0.0.1:${http.address().port}/mcp`));
} else {
  serveStdio(build, { legacy: 'reject' });
}
