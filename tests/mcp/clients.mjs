// One official MCP client against a running server: `node clients.mjs PACKAGE TRANSPORT TARGET…`. PACKAGE is `sdk` (1.x) or `client` (2.x),
// TRANSPORT `stdio` with the command and its arguments, or `http` with a URL. Prints the results as JSON.
const [flavor, transport, ...target] = process.argv.slice(2);
const { Client, StdioClientTransport, StreamableHTTPClientTransport } = await load();

async function load() {
  if (flavor === "client") return { ...(await import("@modelcontextprotocol/client")), ...(await import("@modelcontextprotocol/client/stdio")) };
  const modules = ["index", "stdio", "streamableHttp"].map((name) => import(`@modelcontextprotocol/sdk/client/${name}.js`));
  return Object.assign({}, ...(await Promise.all(modules)));
}

const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: "auto" } });
const [command, ...args] = target;
await client.connect(transport === "stdio" ? new StdioClientTransport({ command, args, stderr: "ignore" }) : new StreamableHTTPClientTransport(new URL(command)));

const call = (request, options) =>
  flavor === "sdk" ? client.callTool({ name: "remote_agent", arguments: request }, undefined, options) : client.callTool({ name: "remote_agent", arguments: request }, options);
const sendRequest = (text) => ({ action: "send", target_alias: "target", parts: [{ kind: "text", text }], follow_updates: true });
const firstText = ({ content }) => content[0].text;
const rejected = (promise) => promise.then(() => false, (error) => error.code ?? true);

const results = { tools: (await client.listTools()).tools.map(({ name }) => name) };
results.listed = firstText(await call({ action: "list_targets" })).split("\n")[0];

const progress = [];
results.streamed = firstText(await call(sendRequest("stream 20 40"), { onprogress: ({ progress: value }) => progress.push(value) })).includes("completed");
results.progress = progress.length > 1 && progress.every((value, i) => i === 0 || value > progress[i - 1]);

const abort = new AbortController();
results.cancelled = (await rejected(call(sendRequest("begun work"), { signal: abort.signal, onprogress: () => abort.abort("user") }))) !== false;
results.after = firstText(await call(sendRequest("echo still here"))).includes("still here");

const unknown = await call({ ...sendRequest("x"), target_alias: "unknown" });
results.unknownAlias = unknown.isError;
results.unknownTool = (await rejected(client.callTool({ name: "other", arguments: {} }))) !== false;

const question = await call(sendRequest("ask which colour"));
const handle = /task_handle[: ]+(rah_[0-9a-f-]+)/.exec(firstText(question))?.[1];
results.continued = firstText(await call({ action: "send", task_handle: handle, parts: [{ kind: "text", text: "green" }] })).includes("green");

results.parallel = (await Promise.all(Array.from({ length: 8 }, (_, i) => call(sendRequest(`echo number ${i}`))))).every((result, i) => firstText(result).includes(`number ${i}`));
await client.close();
console.log(JSON.stringify(results));
