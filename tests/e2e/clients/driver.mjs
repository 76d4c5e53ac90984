// What both TypeScript client drivers share: the command line, and the one line of JSON they print.
// Both are those of driver.py. Run them with the Node that scripts/node_setup installs.

import { createRequire } from 'node:module';

// The packages live outside of this directory's parents, where an import would not find them.
export const requirePeer = createRequire(new URL('../../../.peers/node/package.json', import.meta.url));

export const MODERN = '2026-07-28';
export const CLIENT_INFO = { name: 'penstock-test-client', version: '1.0.0' };
export const CAPABILITIES = { elicitation: {}, sampling: {}, roots: {} };

/** What is shown to a server over HTTP or SSE. */
export const credentials = () =>
  process.env.DRIVER_TOKEN ? { requestInit: { headers: { Authorization: `Bearer ${process.env.DRIVER_TOKEN}` } } } : {};

/** The command line as {era, calls, transport, target}; `target` is a URL, or a command with its arguments. */
export function parse(eras) {
  const chosen = { era: eras[0], calls: [] };
  const words = process.argv.slice(2);
  while (words.length > 0) {
    const option = words.shift();
    if (option === '--era') chosen.era = words.shift();
    else if (option === '--at-once') chosen.atOnce = true;
    else if (option === '--call') chosen.calls.push({ name: words.shift(), arguments: JSON.parse(words.shift()) });
    else if (option === '--http' || option === '--sse') {
      chosen.transport = option.slice(2);
      chosen.target = new URL(words.shift());
    } else if (option === '--stdio') {
      chosen.transport = 'stdio';
      chosen.target = words.splice(0);
    } else usage(`unknown option ${option}`);
  }
  if (!eras.includes(chosen.era)) usage(`--era is one of ${eras.join(', ')}`);
  if (chosen.target === undefined) usage('one of --http, --sse and --stdio is needed');
  return chosen;
}

function usage(fault) {
  console.error(`${fault}\nusage: [--era ERA] [--call NAME JSON]... (--http URL | --sse URL | --stdio COMMAND ARGS...)`);
  process.exit(2);
}

/** Something that fits a form: its defaults, else the first choice, else a plain value of the type. */
export function anAnswerFor(schema) {
  const plain = { string: 'something', integer: 1, number: 1.5, boolean: true, array: [] };
  const filled = {};
  for (const [name, field] of Object.entries(schema?.properties ?? {})) {
    const choices = field.enum ?? field.oneOf?.map((choice) => choice.const) ?? [];
    filled[name] = field.default ?? choices[0] ?? plain[field.type ?? 'string'];
  }
  return filled;
}

/** Connects with `connect`, lists, calls, prints the report and exits. */
export async function drive(client, connect, chosen, report) {
  Object.assign(report, { ok: false, error: null, version: null, server: null, tools: [], calls: [] });
  try {
    await connect();
    report.server = client.getServerVersion()?.name ?? null;
    let cursor;
    do {
      const page = await client.listTools(cursor === undefined ? {} : { cursor });
      report.tools.push(...page.tools.map((tool) => tool.name));
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    if (chosen.atOnce) report.calls = await Promise.all(chosen.calls.map((call) => called(client, call, report)));
    else for (const call of chosen.calls) report.calls.push(await called(client, call, report));
    report.ok = true;
    await client.close();
  } catch (why) {
    report.error = { type: why?.constructor?.name ?? typeof why, ...errorOf(why) };
  }
  process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(report.ok ? 0 : 1));
}

async function called(client, call, report) {
  const onprogress = ({ progress, total }) => report.progress.push([progress, total ?? null]);
  try {
    return await client.callTool(call, ...report.callOptions({ onprogress }));
  } catch (why) {
    // Without a code it is no answer of the server's but a fault on the way.
    if (typeof why?.code !== 'number') throw why;
    return { error: errorOf(why) };
  }
}

function errorOf(why) {
  // SDK v1 puts "MCP error CODE: " before the words of the server.
  const message = String(why?.message ?? why).replace(/^MCP error -?\d+: /, '');
  return { code: why?.code ?? null, message };
}
