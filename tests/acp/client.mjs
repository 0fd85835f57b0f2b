// Runs the command as an agent of the official SDK, and prints what a client sees.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const [program, ...programArguments] = process.argv.slice(2);
const results = {};

async function withAgent(run) {
  const agent = spawn(program, programArguments, { stdio: ["pipe", "pipe", "inherit"] });
  let seen = [];
  let onText = () => {};
  const app = client({ name: "test" });
  app.onNotification(methods.client.session.update, ({ params }) => {
    seen.push(params.update);
    if (params.update.sessionUpdate === "agent_message_chunk") onText();
  });
  const stream = ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
  await app.connectWith(stream, async (context) => {
    const initialized = await context.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
    results.version = initialized.protocolVersion;
    const prompt = async (sessionId, text) => {
      seen = [];
      const { stopReason } = await context.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
      const chunks = seen.filter((update) => update.sessionUpdate === "agent_message_chunk").map((update) => update.content);
      return { stopReason, chunks, text: chunks.map((content) => content.text ?? "").join("") };
    };
    await run(context, prompt, () => new Promise((resolve) => void (onText = resolve)));
  });
  agent.kill();
}

const code = (error) => error.code;
const place = { cwd: process.cwd(), mcpServers: [] };
let session;
await withAgent(async (context, prompt, nextText) => {
  session = (await context.request(methods.agent.session.new, place)).sessionId;
  results.streamed = (await prompt(session, "task gamma")).text;
  results.asked = (await prompt(session, "ask Which colour?")).text;
  results.answered = (await prompt(session, "blue")).text;
  results.refused = (await prompt(session, "reject It is forbidden")).stopReason;
  results.failed = await prompt(session, "fail It rains").catch((error) => error.message);
  results.file = (await prompt(session, "gift")).chunks.find((content) => content.type === "resource")?.resource.uri;
  const firstText = nextText();
  const running = prompt(session, "begun First line");
  await firstText;
  await context.notify(methods.agent.session.cancel, { sessionId: session });
  results.cancelled = (await running).stopReason;
});
await withAgent(async (context, prompt) => {
  await context.request(methods.agent.session.resume, { sessionId: session, ...place });
  results.resumed = (await prompt(session, "echo again")).text;
  results.unknown = await context.request(methods.agent.session.resume, { sessionId: "no", ...place }).catch(code);
});
console.log(JSON.stringify(results));
