// Drives the TypeScript client 2.x, which speaks both eras, as a client. See driver.py.
// In the modern era this SDK reports each round of questions as progress, so `progress` holds more than was sent.

import { anAnswerFor, CAPABILITIES, CLIENT_INFO, credentials, drive, MODERN, parse, requirePeer } from './driver.mjs';

const { version } = requirePeer('./node_modules/@modelcontextprotocol/client/package.json');
const { Client, LOG_LEVEL_META_KEY, SSEClientTransport, StreamableHTTPClientTransport } =
  requirePeer('@modelcontextprotocol/client');
const { StdioClientTransport } = requirePeer('@modelcontextprotocol/client/stdio');

const chosen = parse(['auto', 'legacy', 'modern']);
const report = { client: `@modelcontextprotocol/client ${version}`, asked: [], progress: [], logs: [] };
Object.defineProperty(report, 'callOptions', { value: (options) => [options], enumerable: false });

const mode = chosen.era === 'modern' ? { pin: MODERN } : chosen.era;
const client = new Client(CLIENT_INFO, { capabilities: CAPABILITIES, versionNegotiation: { mode } });
client.setRequestHandler('elicitation/create', (request) => {
  report.asked.push(request.method);
  return { action: 'accept', content: anAnswerFor(request.params.requestedSchema) };
});
client.setRequestHandler('sampling/createMessage', (request) => {
  report.asked.push(request.method);
  return { role: 'assistant', content: { type: 'text', text: 'a sample' }, model: 'none', stopReason: 'endTurn' };
});
client.setRequestHandler('roots/list', (request) => {
  report.asked.push(request.method);
  return { roots: [{ uri: process.env.DRIVER_ROOT ?? 'file:///somewhere', name: 'somewhere' }] };
});
client.setNotificationHandler('notifications/message', (message) => {
  report.logs.push(message.params.data);
});

function transport() {
  if (chosen.transport === 'stdio') {
    return new StdioClientTransport({ command: chosen.target[0], args: chosen.target.slice(1) });
  }
  return chosen.transport === 'sse'
    ? new SSEClientTransport(chosen.target, credentials())
    : new StreamableHTTPClientTransport(chosen.target, credentials());
}

async function connect() {
  await client.connect(transport());
  report.version = client.getNegotiatedProtocolVersion() ?? null;
  // Without a handshake there is no logging/setLevel: each request says for itself that it wants to be told.
  if (report.version === MODERN) for (const call of chosen.calls) call._meta = { [LOG_LEVEL_META_KEY]: 'debug' };
}

await drive(client, connect, chosen, report);
