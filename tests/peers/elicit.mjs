// One official MCP client whose person answers: `node elicit.mjs PACKAGE COMMAND ARGUMENT…`. PACKAGE is `sdk` (1.x) or `client` (2.x).
// Prints what the person read, and what the model read, as JSON.
const [flavor, command, ...args] = process.argv.slice(2);
const load = (name) => import(`@modelcontextprotocol/${name}`);
const [{ Client }, { StdioClientTransport }] = await Promise.all(flavor === "sdk" ? [load("sdk/client/index.js"), load("sdk/client/stdio.js")] : [load("client"), load("client/stdio")]);
const method = flavor === "sdk" ? (await load("sdk/types.js")).ElicitRequestSchema : "elicitation/create";

const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: "auto" } });
const asked = [];
let answer;
client.setRequestHandler(method, ({ params }) => (asked.push(params), answer));
await client.connect(new StdioClientTransport({ command, args, stderr: "inherit" }));

async function send(target, given) {
  answer = given;
  const request = { name: "remote_agent", arguments: { action: "send", target_alias: target, parts: [{ kind: "text", text: "form: which seat?" }] } };
  const { content } = await (flavor === "sdk" ? client.callTool(request, undefined) : client.callTool(request));
  return content[0].text;
}

const results = {
  answered: await send("peer", { action: "accept", content: { when: "mon", seats: 2, aisle: true } }),
  declined: await send("peer", { action: "decline" }),
  cancelled: await send("peer", { action: "cancel" }),
  passed: await send("shared", { action: "accept", content: { leave_to_model: true } }),
};
await client.close();
console.log(JSON.stringify({ asked, results }));
