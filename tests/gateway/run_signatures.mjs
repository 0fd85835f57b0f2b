// Runs the module that docs/reference/a2a-v1.md shows. Arguments: the file of the module, the file of the vectors, and a message
// to verify. Prints a message that it signs.

import { createPrivateKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , module, file, foreign] = process.argv;
const { canonical, payload, publicKey, signMessage, verifyMessage } = await import(pathToFileURL(module));
const check = (holds, what) => {
  if (!holds) throw new Error(what);
};

for (const vector of JSON.parse(readFileSync(file, "utf8"))) {
  const key = createPrivateKey({ key: vector.privateKey, format: "jwk" });
  check(publicKey(key).kid === vector.publicKey.kid, "thumbprint");
  const signed = verifyMessage(vector.message, vector.publicKey);
  check(payload(vector.message, signed) === vector.canonical, "canonical form");
  const again = signMessage(vector.message, key);
  check(vector.header.alg !== "EdDSA" || again.metadata.signature === vector.message.metadata.signature, "EdDSA is deterministic");
  verifyMessage(again, vector.publicKey);
  for (const content of [{ ...vector.message.content, extra: 1 }, {}]) {
    let accepted = true;
    try {
      verifyMessage({ ...again, content }, vector.publicKey);
    } catch {
      accepted = false;
    }
    check(!accepted, "another content");
  }
}
for (const value of [9007199254740992, "\ud800"]) {
  let accepted = true;
  try {
    canonical([value]);
  } catch {
    accepted = false;
  }
  check(!accepted, `canonical form of ${JSON.stringify(value)}`);
}
const { message, publicKey: jwk, pem } = JSON.parse(foreign);
verifyMessage(message, jwk);
console.log(JSON.stringify(signMessage({ ...message, id: "msg-node", metadata: { priority: "high" } }, createPrivateKey(pem))));
