// Drives one published client from npm: lists the tools and calls echo.
//
//     clients.mjs FOLDER PACKAGE http URL
//     clients.mjs FOLDER PACKAGE stdio COMMAND ARGUMENT...
//
// FOLDER is where the package is installed. Prints one line of JSON: {tools, said} or {error}.

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import path from 'node:path';

const [folder, name, kind, ...target] = process.argv.slice(2);
const required = createRequire(path.join(folder, 'package.json'));
const log = console.log;
console.log = console.info = console.warn = () => {};
const words = { message: 'said' };
const command = { command: target[0], args: target.slice(1) };

async function load(what) {
  // Some packages have no door for `require`, so the folder's own resolution is asked for the file.
  try {
    return await import(pathToFileURL(required.resolve(what)).href);
  } catch {
    const about = required(`${folder}/node_modules/${name}/package.json`);
    const door = about.exports?.['.']?.import ?? about.module ?? about.main;
    const file = typeof door === 'string' ? door : (door.default ?? door.import);
    return import(pathToFileURL(path.join(folder, 'node_modules', name, file)).href);
  }
}

const clients = {
  async '@modelcontextprotocol/sdk'() {
    const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await load('@modelcontextprotocol/sdk/client/stdio.js');
    const { StreamableHTTPClientTransport } = await load('@modelcontextprotocol/sdk/client/streamableHttp.js');
    return official(Client, StdioClientTransport, StreamableHTTPClientTransport);
  },
  async '@modelcontextprotocol/client'() {
    const { Client, StreamableHTTPClientTransport } = await load('@modelcontextprotocol/client');
    const { StdioClientTransport } = await load('@modelcontextprotocol/client/stdio');
    return official(Client, StdioClientTransport, StreamableHTTPClientTransport);
  },
  async '@ai-sdk/mcp'() {
    const { createMCPClient, experimental_createMCPClient } = await load('@ai-sdk/mcp');
    let transport = { type: 'http', url: target[0] };
    if (kind === 'stdio') {
      const stdio = await load('@ai-sdk/mcp/mcp-stdio');
      transport = new (stdio.StdioMCPTransport ?? stdio.Experimental_StdioMCPTransport)(command);
    }
    const client = await (createMCPClient ?? experimental_createMCPClient)({ transport });
    const tools = await client.tools();
    const said = await tools.echo.execute(words, { messages: [], toolCallId: '1' });
    return [Object.keys(tools), JSON.stringify(said)];
  },
  async '@langchain/mcp-adapters'() {
    const { MultiServerMCPClient } = await load('@langchain/mcp-adapters');
    const entry = kind === 'stdio' ? { transport: 'stdio', ...command } : { transport: 'http', url: target[0] };
    const client = new MultiServerMCPClient({ mcpServers: { s: entry }, prefixToolNameWithServerName: false });
    const tools = await client.getTools();
    const said = await tools.find((tool) => tool.name === 'echo').invoke(words);
    return [tools.map((tool) => tool.name), JSON.stringify(said)];
  },
  async '@mastra/mcp'() {
    const { MCPClient } = await load('@mastra/mcp');
    const client = new MCPClient({ servers: { s: kind === 'stdio' ? command : { url: new URL(target[0]) } } });
    const tools = await (client.listTools ?? client.getTools).call(client);
    const said = await tools.s_echo.execute({ ...words, context: words }, {});
    return [Object.keys(tools).map((tool) => tool.slice(2)), JSON.stringify(said)];
  },
  async '@openai/agents'() {
    const { MCPServerStdio, MCPServerStreamableHttp } = await load('@openai/agents');
    const server =
      kind === 'stdio'
        ? new MCPServerStdio({ name: 's', ...command })
        : new MCPServerStreamableHttp({ name: 's', url: target[0] });
    await server.connect();
    const tools = await server.listTools();
    const said = await server.callTool('echo', words);
    return [tools.map((tool) => tool.name), JSON.stringify(said)];
  },
  async 'mcp-use'() {
    const { MCPClient } = await load('mcp-use');
    const client = MCPClient.fromDict
      ? MCPClient.fromDict({ mcpServers: { s: kind === 'stdio' ? command : { url: target[0] } } })
      : new MCPClient({ mcpServers: { s: kind === 'stdio' ? command : { url: target[0] } } });
    const session = await client.createSession('s');
    const tools = await session.listTools();
    const said = await session.callTool('echo', words);
    return [tools.map((tool) => tool.name), JSON.stringify(said)];
  },
  async 'mcp-client'() {
    const { MCPClient } = await load('mcp-client');
    const client = new MCPClient({ name: 'test', version: '1.0.0' });
    await client.connect(
      kind === 'stdio' ? { type: 'stdio', env: process.env, ...command } : { type: 'httpStream', url: target[0] },
    );
    const tools = await client.getAllTools();
    const said = await client.callTool({ name: 'echo', arguments: words });
    return [tools.map((tool) => tool.name), JSON.stringify(said)];
  },
};

async function official(Client, Stdio, Http) {
  const client = new Client({ name: 'test', version: '1' }, { capabilities: {} });
  await client.connect(kind === 'stdio' ? new Stdio(command) : new Http(new URL(target[0])));
  const { tools } = await client.listTools();
  const said = await client.callTool({ name: 'echo', arguments: words });
  return [tools.map((tool) => tool.name), said.content[0].text];
}

let report;
try {
  const [tools, said] = await clients[name]();
  report = { tools, said };
} catch (error) {
  report = { error: `${error.name}: ${error.message}` };
}
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
