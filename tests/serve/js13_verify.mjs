// Verifies a signed card with the official JavaScript SDK: `js13_verify.mjs PACKAGES CARD KEYS`, the last two JSON files. Prints
// the verified key id.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, ...files] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const { AgentCard, verifyAgentCardSignature } = await import(pathToFileURL(require.resolve("@a2a-js/sdk")));
const [card, { keys }] = files.map((file) => JSON.parse(readFileSync(file, "utf8")));
let asked;
const verify = verifyAgentCardSignature(async (kid, jku) => {
  asked = { kid, jku };
  return keys.find((key) => key.kid === kid);
});
await verify(AgentCard.fromJSON(card));
console.log(JSON.stringify(asked));
