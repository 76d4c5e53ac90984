// A server of the published TypeScript SDK (1.x) with sessions, whose tool asks its client something.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { ElicitResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";

const sessions = new Map();

async function open() {
  const server = new McpServer({ name: "asking", version: "1" }, { capabilities: { tools: {} } });
  server.registerTool("ask", { description: "asks" }, async (extra) => {
    const params = {
      message: "a secret?",
      requestedSchema: { type: "object", properties: { secret: { type: "string" } } },
    };
    const answer = await extra.sendRequest({ method: "elicitation/create", params }, ElicitResultSchema);
    return { content: [{ type: "text", text: "heard " + JSON.stringify(answer) }] };
  });
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, transport),
  });
  await server.connect(transport);
  return transport;
}

const http = createServer(async (request, response) => {
  const known = sessions.get(request.headers["mcp-session-id"]);
  const transport = known ?? (await open());
  await transport.handleRequest(request, response);
});
http.listen(0, "127.0.0.1", () => console.error(`listening on http://127.0.0.1:${http.address().port}/mcp`));
