// The first use of Node-API in a process that has loaded nothing else.

const { library, config, target } = JSON.parse(process.argv[2]);
const parts = [{ kind: "text", text: "Good morning" }];
const request = JSON.stringify({ action: "send", target_alias: target, parts });
const loaded = { exports: {} };

const memory = process.memoryUsage.rss();
const start = performance.now();
const now = (name) => ({
  [`${name} ms`]: performance.now() - start,
  [`${name} MB`]: (process.memoryUsage.rss() - memory) / 1e6,
});
process.dlopen(loaded, library);
const { RemoteAgent, CancelToken } = loaded.exports;
const agent = new RemoteAgent(config);
agent.definition();
const registered = now("registered");
const envelope = await agent.execute(request, null, new CancelToken(), null);
if (!envelope.startsWith('{"ok":true')) throw new Error(envelope);
console.log(JSON.stringify({ ...registered, ...now("answered") }));
agent.close();
