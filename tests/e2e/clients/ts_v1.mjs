// Drives the TypeScript SDK 1.x, which knows no era but the legacy one, as a client. See driver.py.

import { anAnswerFor, CAPABILITIES, CLIENT_INFO, credentials, drive, parse, requirePeer } from './driver.mjs';

const { version } = requirePeer('./node_modules/@modelcontextprotocol/sdk/package.json');
const { Client } = requirePeer('@modelcontextprotocol/sdk/client/index.js');
const types = requirePeer('@modelcontextprotocol/sdk/types.js');

const chosen = parse(['legacy']);
const report = { client: `@modelcontextprotocol/sdk ${version}`, asked: [], progress: [], logs: [] };
// Not for printing: in this generation the schema of the result stands before the options.
Object.defineProperty(report, 'callOptions', { value: (options) => [undefined, options], enumerable: false });

const client = new Client(CLIENT_INFO, { capabilities: CAPABILITIES });
client.setRequestHandler(types.ElicitRequestSchema, (request) => {
  report.asked.push(request.method);
  return { action: 'accept', content: anAnswerFor(request.params.requestedSchema) };
});
client.setRequestHandler(types.CreateMessageRequestSchema, (request) => {
  report.asked.push(request.method);
  return { role: 'assistant', content: { type: 'text', text: 'a sample' }, model: 'none', stopReason: 'endTurn' };
});
client.setRequestHandler(types.ListRootsRequestSchema, (request) => {
  report.asked.push(request.method);
  return { roots: [{ uri: 'file:///somewhere', name: 'somewhere' }] };
});
client.setNotificationHandler(types.LoggingMessageNotificationSchema, (message) => {
  report.logs.push(message.params.data);
});

function transport() {
  if (chosen.transport === 'stdio') {
    const { StdioClientTransport } = requirePeer('@modelcontextprotocol/sdk/client/stdio.js');
    return new StdioClientTransport({ command: chosen.target[0], args: chosen.target.slice(1) });
  }
  if (chosen.transport === 'sse') {
    const { SSEClientTransport } = requirePeer('@modelcontextprotocol/sdk/client/sse.js');
    return new SSEClientTransport(chosen.target, credentials());
  }
  const { StreamableHTTPClientTransport } = requirePeer('@modelcontextprotocol/sdk/client/streamableHttp.js');
  return new StreamableHTTPClientTransport(chosen.target, credentials());
}

const link = transport();
// The client keeps the agreed version to itself, and tells only its transport.
const tell = link.setProtocolVersion?.bind(link);
link.setProtocolVersion = (agreed) => {
  report.version = agreed;
  tell?.(agreed);
};
await drive(client, () => client.connect(link), chosen, report);
