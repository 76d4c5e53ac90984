// Connects with the OAuth provider interface of the TypeScript SDK, lists the tools and calls echo.
//
//     oauth_client.mjs 1|2 URL [RESOURCE]
//
// 1 and 2 are the generations of the SDK. With RESOURCE the provider asks for a token for that resource, and not for the
// one that the metadata names: the hook of the SDK for this is validateResourceURL.

import { requirePeer } from './driver.mjs';

const [generation, url, resource] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport, UnauthorizedError } =
  generation === '1'
    ? {
        ...requirePeer('@modelcontextprotocol/sdk/client/index.js'),
        ...requirePeer('@modelcontextprotocol/sdk/client/streamableHttp.js'),
        ...requirePeer('@modelcontextprotocol/sdk/client/auth.js'),
      }
    : requirePeer('@modelcontextprotocol/client');

const kept = {};
const provider = {
  redirectUrl: 'http://127.0.0.1:1/callback', // nobody listens: the code is read from where we are sent
  clientMetadata: {
    client_name: 'test',
    redirect_uris: ['http://127.0.0.1:1/callback'],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    scope: 'use',
  },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => {
    kept.client = client;
  },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => {
    kept.tokens = tokens;
  },
  saveCodeVerifier: (verifier) => {
    kept.verifier = verifier;
  },
  codeVerifier: () => kept.verifier,
  async redirectToAuthorization(where) {
    const answer = await fetch(where, { redirect: 'manual' });
    kept.back = new URL(answer.headers.get('location')).searchParams;
  },
  ...(resource ? { validateResourceURL: async () => new URL(resource) } : {}),
};

async function connect() {
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  const client = new Client({ name: 'test', version: '1' }, { capabilities: {} });
  try {
    await client.connect(transport);
  } catch (error) {
    if (!(error instanceof UnauthorizedError) || kept.tokens) throw error;
    await (generation === '1' ? transport.finishAuth(kept.back.get('code')) : transport.finishAuth(kept.back));
    return connect();
  }
  return client;
}

let report;
try {
  const client = await connect();
  const { tools } = await client.listTools();
  const called = await client.callTool({ name: 'echo', arguments: { word: 'said' } });
  report = { tools: tools.map((tool) => tool.name), said: called.content[0].text };
} catch (error) {
  report = { error: `${error.name}: ${error.message}` };
}
console.log(JSON.stringify(report));
process.exit(0);
