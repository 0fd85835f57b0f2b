import assert from "node:assert/strict";
import { test } from "node:test";
import { isSender, senderOf } from "../sender.js";

test("a sender is known by channel, account and id, whatever characters they have", () => {
  const user = senderOf({ messageChannel: "matrix", agentAccountId: "work", requesterSenderId: "@ada:example.org%" });
  assert.equal(user, "openclaw:matrix:work:@ada%3Aexample.org%25");
  const is = (...sender) => isSender(user, ...sender);
  assert.deepEqual([is("matrix", "work", "@ada:example.org%"), is("irc", "work", "@ada:example.org%"), is("matrix", "default", "@ada:example.org%"), is("matrix", "work", "@ada")], [true, false, false, false]);
});

test("a sender without an account is that of the default account", () => {
  for (const agentAccountId of [undefined, "default"]) {
    const user = senderOf({ messageChannel: "irc", agentAccountId, requesterSenderId: "ada" });
    assert.deepEqual([isSender(user, "irc", "default", "ada"), isSender(user, "irc", "work", "ada")], [true, false]);
  }
});

test("no one is the sender of a message without one, or a user with a broken name", () => {
  assert.equal(senderOf({ messageChannel: "irc" }), undefined);
  for (const user of [undefined, "", "openclaw", "openclaw:irc::%"]) assert.equal(isSender(user, "irc", "default", "ada"), false);
});
