import assert from "node:assert/strict";
import process from "node:process";
import { mock, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { People } from "../person.js";
import { answerField, closeAll, here, open, question, session } from "./people.js";

/** A reply of the person 42 to the first message with a question, as the hook of OpenClaw has it: the event and its context. */
const reply = (event, context) => [
  { content: "Europe", channel: "telegram", sessionKey: session.sessionKey, senderId: "42", replyToId: "m-1", ...event },
  { channelId: "telegram", accountId: "default", conversationId: "42", ...context },
];
/** What the library says of the last question of a call. */
const result = (outcome) => ({ ok: true, summary: { person: { outcome, question_id: "q-1" } } });
const received = "Received. support gets the answer if its task still waits for it.";

test("a person answers in Control UI", async () => {
  const { questions, ask } = open();
  const { answer } = ask();
  const asked = await questions.next(1);
  assert.deepEqual([asked.header, asked.options, asked.isOther, asked.sessionKey], ["support", [], true, session.sessionKey]);
  assert.match(asked.question, /^“Support desk”, the remote agent support at https:\/\/support\.example, asks a person about the task “Order ten chairs”\.\nNever send passwords or keys to an agent\.\nThe agent's own words, not verified: “Which region\?”\.$/);
  await questions.reply("Antarctica");
  assert.deepEqual(await answer, { action: "answer", content: { answer: "Antarctica" } });
  assert.equal(questions.connections, 0);
});

test("the message in a chat keeps the words of an agent in a code block", async () => {
  const { questions, ask, people, reference } = open();
  const { answer } = ask({ text: "``` ![x](https://evil.example/x.png) /remote-answer Question ffffff of the remote agent" });
  await questions.next(1);
  const [text] = questions.posted;
  assert.equal(text.split("```").length, 3);
  assert.ok(!text.split("```")[0].includes("evil") && !text.split("```")[2].includes("evil"));
  assert.deepEqual(await people.onMessage(...reply()), { handled: true, text: received });
  assert.match(reference(), /^[0-9a-f]{6}$/);
  assert.deepEqual(await answer, { action: "answer", content: { answer: "Europe" }, by: "telegram:42" });
});

test("only a reply to the message with the question, in its conversation, is an answer", async () => {
  const { questions, ask, people, reference } = open();
  ask();
  await questions.next(1);
  for (const [event, context] of [
    [{ replyToId: undefined }],
    [{ replyToId: undefined, replyToBody: questions.posted[0] }],
    [{ replyToId: "m-2", replyToBody: questions.posted[0] }],
    [{ channel: "discord" }],
    [{ channel: "a2a" }],
    [{ sessionKey: "agent:main:telegram:direct:43" }],
    [{}, { accountId: "other" }],
    [{}, { conversationId: "43" }],
    [{}, { conversationId: undefined }],
  ]) assert.equal(await people.onMessage(...reply(event, context)), undefined, JSON.stringify([event, context]));
  assert.match((await people.onCommand({ args: `${reference()} Europe`, channel: "a2a", sessionKey: session.sessionKey })).text, /^Only a person/);
  assert.equal(questions.all[0].status, "pending");
  assert.equal((await people.onMessage(...reply({ replyToId: "1", replyToIdFull: "m-1" }))).text, received);
});

test("in a channel that names no messages a reply is no answer, and the command is", async () => {
  const { questions, ask, people, reference } = open();
  questions.place = undefined;
  ask();
  await questions.next(1);
  assert.equal(await people.onMessage(...reply({ replyToId: undefined })), undefined);
  assert.equal((await people.onCommand({ args: `${reference()} Europe`, channel: "telegram", senderId: "42", sessionKey: session.sessionKey })).text, received);
});

test("where several people write, a reply counts from the one whom the question is for", async () => {
  for (const [sessionKey, to, user, event, isTaken] of [
    ["agent:main:telegram:group:-7", "telegram:group:-7", "openclaw:telegram::42", {}, true],
    ["agent:main:telegram:group:-7", "telegram:group:-7", "openclaw:telegram::43", {}, false],
    ["agent:main:telegram:group:-7", "telegram:group:-7", undefined, { senderId: "-7" }, false],
    ["agent:main:slack:channel:c1", "telegram:42", undefined, {}, false],
    ["agent:main:telegram:direct:42:thread:5", "telegram:42", undefined, {}, false],
    ["agent:main:telegram:direct:42", "telegram:42", undefined, { isGroup: true }, false],
    // All direct messages have one session.
    ["agent:main:main", "telegram:42", undefined, {}, true],
    ["agent:main:main", "telegram:42", "openclaw:telegram::42", { senderId: "43" }, false],
    ["agent:direct:main", "telegram:42", "openclaw:telegram::42", { senderId: "43" }, false],
  ]) {
    const { questions, ask, people } = open();
    Object.assign(questions.place, { to });
    ask({}, { sessionKey, user });
    await questions.next(1);
    const taken = await people.onMessage(...reply({ sessionKey, ...event }, { conversationId: to.replace(/.*:/, "") }));
    assert.equal(taken !== undefined, isTaken, JSON.stringify([sessionKey, user, event]));
  }
});

test("a reply in a thread is an answer", async () => {
  const { questions, ask, people } = open();
  Object.assign(questions.place, { to: "telegram:-7", threadId: "5" });
  ask();
  await questions.next(1);
  assert.equal(await people.onMessage(...reply({}, { conversationId: "-7:topic:6" })), undefined);
  assert.equal((await people.onMessage(...reply({}, { conversationId: "-7:topic:5" }))).text, received);
});

test("a reply to the message of an earlier field, or of an ended question, is not sent", async () => {
  const { questions, ask, people } = open();
  const { answer } = ask({ fields: [{ ...answerField, name: "from", title: "From" }, { ...answerField, name: "to", title: "To" }] });
  for (const [message, text] of [["m-1", "Oslo"], ["m-2", "Bergen"]]) {
    await questions.next(Number(message.at(-1)));
    assert.equal((await people.onMessage(...reply({ content: text, replyToId: message }))).text, received);
    assert.match((await people.onMessage(...reply({ content: "Molde", replyToId: "m-1" }))).text, /was answered already\. Your answer was not sent/);
  }
  assert.deepEqual((await answer).content, { from: "Oslo", to: "Bergen" });
});

test("two questions have references of their own, and the answer to one never counts for the other", async () => {
  const { questions, ask, people, reference } = open();
  // Their digests begin alike: an agent can search for such words.
  const first = ask({ id: "q-8173" });
  await questions.next(1);
  const one = reference();
  const second = ask({ id: "q-8528", text: "Delete everything?" });
  await questions.next(2);
  assert.notEqual(one, reference());
  await people.answer(one, "Europe", here);
  assert.deepEqual((await first.answer).content, { answer: "Europe" });
  assert.equal(questions.all[1].status, "pending");
  await people.answer(reference(), "no", here);
  assert.deepEqual((await second.answer).content, { answer: "no" });
});

test("an agent cannot know the reference of its question", async () => {
  const references = [];
  for (let i = 0; i < 2; i += 1) {
    const { questions, ask, reference } = open();
    ask();
    await questions.next(1);
    references.push(reference());
  }
  assert.notEqual(...references);
});

test("the chat reads that an answer was not sent, where the library says so", async () => {
  for (const [envelope, expected] of [
    [result("answered"), undefined],
    [result("busy"), undefined],
    [{ ok: true, summary: { person: { outcome: "unsent", question_id: "q-2" } } }, undefined],
    [{ ok: false, error: { details: { delivered: "unknown" } } }, undefined],
    [undefined, undefined],
    [result("unsent"), /^The answer to the question \S{6} of the remote agent support was not sent, or the agent did not take it: its task may have ended, or gone on without it\.$/],
    [result("invalid"), /was not sent: it does not fit the question\.$/],
    [{ ok: false, error: { details: { delivered: "no" } } }, /was not sent: the call failed before\.$/],
  ]) {
    const { questions, ask, people, reference } = open();
    const { answer, end } = ask();
    await questions.next(1);
    await people.answer(reference(), "Europe", here);
    await answer;
    end(false, envelope);
    await setImmediate();
    const [, notice, ...more] = questions.posted;
    if (expected) assert.match(notice, expected);
    else assert.equal(notice, undefined, JSON.stringify(envelope));
    assert.deepEqual([more, questions.connections], [[], 0]);
  }
});

test("an answer for which no call waits any more is not sent, and the chat reads that", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const { questions, ask, people, reference } = open();
  const { answer, end } = ask({ timeout_ms: 60_000 });
  await questions.next(1);
  mock.timers.tick(60_000);
  await answer;
  end(true);
  assert.equal(await people.answer(reference(), "Europe", here), received);
  await setImmediate();
  mock.timers.tick(15_000);
  await setImmediate();
  assert.match(questions.posted[1], /was not sent: its time was over\.$/);
});

test("an answer while the question is being asked is to be sent again", async () => {
  const { questions, ask, people, reference } = open();
  ask();
  await questions.next(1);
  const registered = Promise.withResolvers();
  const { request } = questions;
  questions.request = async (...call) => (call[0] === "question.request" && (await registered.promise), request.apply(questions, call));
  questions.all[0].ended.resolve({ status: "expired" });
  await setImmediate();
  assert.equal(await people.answer(reference(), "Europe", here), `The question ${reference()} is not open at the moment. Your answer was not sent. Try again.`);
  registered.resolve();
  await questions.next(2);
  questions.request = async (method) => assert.fail(`${method}: question was not found`);
  assert.match(await people.answer(reference(), "Europe", here), /not sent: .*not found\. Try again\.$/);
});

test("skipping a question declines it", async () => {
  const { questions, ask } = open();
  const { answer } = ask();
  await questions.next(1);
  await questions.request("question.resolve", { id: questions.all[0].id, cancel: true });
  assert.deepEqual(await answer, { action: "decline" });
});

test("of two people the first one answers, and the other one reads that", async () => {
  const { questions, ask, people, reference } = open();
  const { answer } = ask();
  await questions.next(1);
  const replies = await Promise.all(["first", "second"].map((text) => people.answer(reference(), text, { ...here, by: `telegram:${text}` })));
  assert.deepEqual(replies, [received, `The question ${reference()} was answered already. Your answer was not sent.`]);
  assert.deepEqual(await answer, { action: "answer", content: { answer: "first" }, by: "telegram:first" });
  assert.match(await people.answer(reference(), "third", here), /was answered already\. Your answer was not sent\./);
});

test("an answer to an earlier field does not count for the next one", async () => {
  const { questions, ask, people, reference } = open();
  ask({ fields: [{ ...answerField, name: "from", title: "From" }, { ...answerField, name: "to", title: "To" }] });
  await questions.next(1);
  const first = reference();
  await people.answer(first, "Oslo", here);
  await questions.next(2);
  assert.match(await people.answer(first, "Bergen", here), /was answered already/);
  assert.equal(questions.all[1].status, "pending");
});

test("an answer after the time of a question is not sent", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const { questions, ask, people, reference } = open();
  const { answer } = ask({ timeout_ms: 60_000 });
  await questions.next(1);
  mock.timers.tick(60_000);
  assert.deepEqual(await answer, { action: "timeout" });
  mock.timers.tick(15_000);
  assert.equal(questions.all[0].status, "cancelled");
  assert.match(await people.answer(reference(), "late", here), /is not open any more.*Your answer was not sent/);
});

test("the next call that asks the same question gets the answer to the open one", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const { questions, ask } = open();
  const first = ask({ timeout_ms: 60_000 });
  await questions.next(1);
  mock.timers.tick(60_000);
  await first.answer;
  assert.equal(first.call.isOpen, true);
  first.end(true);
  const second = ask();
  await questions.reply("Antarctica");
  assert.deepEqual(await second.answer, { action: "answer", content: { answer: "Antarctica" } });
  assert.equal(questions.all.length, 1);
});

test("the next call gets an answer that came before it, and asks again at once where it does not fit", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const { questions, ask } = open();
  const first = ask({ timeout_ms: 60_000 });
  await questions.next(1);
  mock.timers.tick(60_000);
  await first.answer;
  first.end(true);
  await questions.reply("Antarctica");
  await setImmediate();
  const { call, answer } = ask();
  assert.deepEqual(await answer, { action: "answer", content: { answer: "Antarctica" } });
  call.ask(JSON.stringify(question({ error: "write a region" })));
  await questions.next(2);
});

test("a question that only the call knows is withdrawn with it, and one that the model may answer is not open", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const { questions, ask } = open();
  const { call, end, answer } = ask({ may_pass_to_model: true });
  await questions.next(1);
  mock.timers.tick(60_000);
  assert.deepEqual([await answer, call.isOpen, questions.all[0].status], [{ action: "timeout" }, false, "pending"]);
  end(false);
  assert.equal(questions.all[0].status, "cancelled");
});

test("a sign-in that waited leaves no open question behind", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const { questions, ask } = open();
  const sign_in = { server: "https://login.example", code: "c", takes_address: false };
  const { call, answer } = ask({ kind: "auth", url: "https://login.example/go", sign_in });
  await questions.next(1);
  mock.timers.tick(60_000);
  assert.deepEqual([await answer, call.isOpen], [{ action: "timeout" }, false]);
});

test("right after an answer only the call that has it asks the same again", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const { questions, ask } = open();
  const { call, answer } = ask();
  await questions.next(1);
  await questions.reply("Antarctica");
  await answer;
  const other = ask();
  mock.timers.tick(9000);
  const waits = Symbol();
  assert.equal(await Promise.race([other.answer, setImmediate(waits)]), waits);
  const again = call.ask(JSON.stringify(question()));
  await questions.next(2);
  await questions.reply("Europe");
  assert.equal(JSON.parse(await again).content.answer, "Europe");
  mock.timers.tick(1000);
  assert.deepEqual([await other.answer, questions.all.length], [{ action: "timeout" }, 2]);
  mock.timers.tick(10_000);
  ask();
  await questions.next(3);
});

test("a call that asks again keeps its question open", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const { questions, ask } = open();
  const { call, answer } = ask();
  await questions.next(1);
  mock.timers.tick(58_500);
  const again = call.ask(JSON.stringify(question()));
  mock.timers.tick(500);
  assert.deepEqual(await answer, { action: "timeout" });
  mock.timers.tick(30_000);
  await questions.reply("Antarctica");
  assert.equal(JSON.parse(await again).action, "answer");
  assert.equal(questions.all.length, 1);
});

test("the wait for a person ends before that of the library", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const { questions, ask } = open();
  const { answer } = ask({ timeout_ms: 60_000 });
  await questions.next(1);
  mock.timers.tick(59_000);
  assert.deepEqual(await answer, { action: "timeout" });
});

test("two calls do not ask the same question at the same time", async () => {
  const { questions, ask } = open();
  const first = ask();
  await questions.next(1);
  assert.deepEqual(await ask().answer, { action: "unreachable" });
  assert.deepEqual(await ask({}, { sessionKey: "agent:main:other" }).answer, { action: "unreachable" });
  await questions.reply("Antarctica");
  assert.equal((await first.answer).action, "answer");
});

test("the end of a call withdraws its question", async () => {
  const { questions, ask } = open();
  const { end, answer } = ask();
  await questions.next(1);
  end(false);
  assert.deepEqual([await answer, questions.all[0].status], [{ action: "timeout" }, "cancelled"]);
});

test("OpenClaw's question that expires is asked again, and not posted again", async () => {
  const { questions, ask } = open();
  const { answer } = ask();
  await questions.next(1);
  questions.all[0].ended.resolve({ status: "expired" });
  await questions.next(2);
  await questions.reply("Antarctica");
  assert.equal((await answer).action, "answer");
  assert.equal(questions.posted.length, 1);
});

test("a signal to stop withdraws the question, and no other one is asked", async () => {
  const { people, questions, ask } = open();
  const others = process.listeners("SIGTERM").length;
  const { answer } = ask();
  await questions.next(1);
  // The first listener: that of OpenClaw would stop accepting requests.
  process.listeners("SIGTERM")[0]("SIGTERM");
  assert.deepEqual([await answer, questions.all[0].status, people.isStopping], [{ action: "unreachable" }, "cancelled", true]);
  assert.deepEqual(await ask().answer, { action: "unreachable" });
  assert.equal(questions.all.length, 1);
  closeAll();
  assert.equal(process.listeners("SIGTERM").length, others - 1);
});

test("without a gateway no person can be asked", async () => {
  const call = new People().forCall(session);
  assert.deepEqual(JSON.parse(await call.ask(JSON.stringify(question()))), { action: "unreachable" });
});

test("a gateway that refuses is no answer, and the log has the reason", async () => {
  const { questions, ask } = open();
  questions.host.connect = () => Promise.reject(new Error("unauthorized\u001b[2J"));
  assert.deepEqual(await ask().answer, { action: "unreachable" });
  assert.deepEqual(questions.warned, ["cannot ask a person about a task of support: unauthorized[2J"]);
});

test("the command answers, declines and lists what is open in its chat", async () => {
  const { questions, ask, people, reference } = open();
  const { answer } = ask({ fields: [{ ...answerField, type: "integer" }] });
  await questions.next(1);
  const context = { sessionKey: session.sessionKey, channel: "discord", senderId: "7" };
  assert.match((await people.onCommand(context)).text, new RegExp(`^${reference()}: support asks a person\n`));
  assert.equal((await people.onCommand({ ...context, sessionKey: "agent:main:other" })).text, "No remote agent waits for an answer in this chat.");
  assert.match((await people.onCommand({ ...context, sessionKey: "agent:main:other", args: `${reference()} 3` })).text, /is not open here/);
  assert.match((await people.onCommand({ ...context, args: `${reference()} three` })).text, /not accepted: it is not a whole number/);
  assert.equal((await people.onCommand({ ...context, args: `${reference()} decline` })).text, "Declined: the agent receives no answer.");
  assert.deepEqual(await answer, { action: "decline", by: "discord:7" });
});

test("an operator answers the question of another session", async () => {
  const { questions, ask, people, reference } = open();
  const { answer } = ask();
  await questions.next(1);
  await people.onCommand({ args: `${reference()} two words`, channel: "webchat", senderId: "cli", sessionKey: "agent:main:other", gatewayClientScopes: ["operator.admin"] });
  assert.deepEqual((await answer).content, { answer: "two words" });
});
