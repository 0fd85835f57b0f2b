// Loads the library of an unpacked package with the package's own loader, and calls the tool once.
//
//   node .ci/load-library.mjs DIRECTORY
import { strict as assert } from "node:assert";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const { loadLibrary, platformName, thisMachine } = await import(pathToFileURL(resolve(process.argv[2], "native.js")).href);
const library = loadLibrary();
const settings = { targets: [{ alias: "peer", baseUrl: "https://agent.invalid" }] };
const agent = new library.RemoteAgent(JSON.stringify(settings), () => {});
const listed = JSON.parse(await agent.execute(JSON.stringify({ action: "list_targets" }), "{}", new library.CancelToken(), null));
assert.equal(listed.ok, true, JSON.stringify(listed));
assert.match(JSON.stringify(listed), /"peer"/);
agent.closeAndWait();
console.log(`${platformName(thisMachine())}: the library loads and answers`);
