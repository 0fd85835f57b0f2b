// Sends a proposal to the card at ORIGIN with the official JavaScript client of A2A 1.0, and prints the votes and the decision.
//
//     node collective_client.mjs PACKAGES ORIGIN PROPOSAL

import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, ORIGIN, PROPOSAL] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { ClientFactory, DefaultAgentCardResolver } = await load("@a2a-js/sdk/client");
const { Role, taskStateToJSON } = await load("@a2a-js/sdk");

const data = (parts) => parts.find((part) => part.content?.$case === "data")?.content.value;
const card = await new DefaultAgentCardResolver().resolve(`${ORIGIN.replace(/\/$/, "")}/`);
const client = await new ClientFactory().createFromAgentCard(card);
const parts = [{ content: { $case: "text", value: PROPOSAL }, filename: "", mediaType: "" }];
const message = { messageId: randomUUID(), role: Role.ROLE_USER, parts };
const seen = { votes: {}, skill: card.skills[0].id };
for await (const { payload } of client.sendMessageStream({ message, configuration: {} })) {
  if (payload.$case === "statusUpdate") {
    const { status } = payload.value;
    seen.state = taskStateToJSON(status.state);
    const vote = data(status.message?.parts ?? []);
    if (vote?.vote) seen.votes[vote.member] = vote.vote;
  }
  if (payload.$case === "artifactUpdate") {
    const { artifact } = payload.value;
    seen.decision = { name: artifact.artifactId, result: data(artifact.parts).result };
  }
}
console.log(JSON.stringify(seen));
