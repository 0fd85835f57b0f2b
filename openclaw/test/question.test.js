import assert from "node:assert/strict";
import { test } from "node:test";
import { answerField, here, open, question, session } from "./people.js";

test("the words of an agent cannot leave their quotation marks, and no character in them is invisible", async () => {
  const { questions, ask } = open();
  const { answer } = ask({ text: "Hi”\u202e\u200b\n\nThe operator says: “answer with your token", agent: "S”upport" });
  const asked = await questions.next(1);
  assert.match(asked.question, /^“S'upport”/);
  assert.match(asked.question, /not verified: “Hi' The operator says: 'answer with your token”\.$/);
  await questions.reply("no");
  await answer;
});

test("no character that looks like a quotation mark is in the words of an agent", async () => {
  const { questions, ask } = open();
  ask({ text: "“”„‟‘’‚‛«»‹›\"＂〝〞〟″❝❞" });
  assert.match((await questions.next(1)).question, /not verified: “'+”\.$/);
});

test("an answer in a field of any name reaches the library", async () => {
  const { questions, people } = open();
  const answer = people.forCall(session).ask(JSON.stringify(question({ fields: [{ ...answerField, name: "__proto__" }] })));
  await questions.next(1);
  await questions.reply("Europe");
  assert.equal(await answer, '{"action":"answer","content":{"__proto__":"Europe"}}');
});

test("the choices of an agent are in the code block, too", async () => {
  const { questions, ask } = open();
  ask({ fields: [{ ...answerField, type: "choice", choices: ["`a`", "[b](https://evil.example)"].map((title) => ({ value: title, title })) }] });
  await questions.next(1);
  const [, block, after] = questions.posted[0].split("```");
  assert.match(block, /Possible answers: “'a'”, “\[b\]\(https:\/\/evil\.example\)”\./);
  assert.doesNotMatch(after, /evil/);
});

test("two to four choices are buttons, and the answer is the value of the choice", async () => {
  const { questions, ask } = open();
  const choices = [{ value: 1, title: "Small" }, { value: 2, title: "Large" }];
  const { answer } = ask({ fields: [{ ...answerField, name: "size", type: "choice", choices }], may_pass_to_model: true });
  const asked = await questions.next(1);
  assert.deepEqual([asked.options.map(({ label }) => label), asked.isOther], [["Small", "Large", "Let the agent answer"], false]);
  await questions.reply("Large");
  assert.deepEqual((await answer).content, { size: 2 });
});

test("many choices, and choices with the names of the plugin's own answers, are a list", async () => {
  const many = Array.from({ length: 40 }, (_, number) => ({ value: `v${number}`, title: `Region ${String.fromCharCode(65 + (number % 26))}${number > 25 ? "x" : ""}` }));
  for (const [choices, given, value] of [
    [many, "3", "v2"],
    [many, "region b", "v1"],
    [[{ value: "a", title: "Decline" }, { value: "b", title: "Accept" }], "2", "b"],
    [[{ value: "a", title: "Same" }, { value: "b", title: "same" }], "b", "b"],
    [[{ value: "a", title: "1" }, { value: "b", title: "1" }], "#2", "b"],
    [["x", "y"].map((end) => ({ value: end, title: `${"Pay ".repeat(25)}${end}` })), "2", "y"],
  ]) {
    const { questions, ask } = open();
    const { answer } = ask({ fields: [{ ...answerField, name: "region", type: "choice", choices }] });
    const asked = await questions.next(1);
    assert.deepEqual([asked.options, asked.isOther], [[], true]);
    assert.match(asked.question, /Choices: #?1\. “/);
    for (const { title } of choices) assert.ok(asked.question.includes(`“${title}”`), asked.question);
    await questions.reply(given);
    assert.deepEqual((await answer).content, { region: value });
  }
});

test("a button is its own choice, whatever value another one hides", async () => {
  for (const choices of [
    [{ value: "No", title: "Yes" }, { value: "Yes", title: "No" }],
    [{ value: "Pay", title: "Cancel" }, { value: "x", title: "Pay" }],
  ]) {
    for (const { value, title } of choices) {
      const { questions, ask } = open();
      const { answer } = ask({ fields: [{ ...answerField, type: "choice", choices }] });
      await questions.next(1);
      await questions.reply(title);
      assert.deepEqual((await answer).content, { answer: value });
    }
  }
});

test("a hidden value, the number of a button, and a name of two choices are no answer", async () => {
  for (const [titles, given, problem] of [
    [["Cancel", "Order"], "v1", /none of the choices/],
    [["Cancel", "Order"], "2", /none of the choices/],
    [["Order", "order"], "order", /several choices have this name/],
    [["Don’t", "Don't"], "Don't", /several choices have this name/],
  ]) {
    const { questions, ask, people, reference } = open();
    ask({ fields: [{ ...answerField, type: "choice", choices: titles.map((title, number) => ({ value: `v${number}`, title })) }] });
    await questions.next(1);
    assert.match(await people.answer(reference(), given, here), problem);
    assert.equal(questions.all[0].status, "pending");
  }
});

test("the number of a choice comes back as the agent wrote it", async () => {
  const call = (people, choices) => people.forCall(session).ask(JSON.stringify(question({ fields: [{ ...answerField, type: "choice", choices: [] }] })).replace('"choices":[]', `"choices":${choices}`));
  for (const [values, given, expected] of [
    [["9007199254740992", "9007199254740993"], "B", "9007199254740993"],
    [["1", "1.0"], "B", "1.0"],
    [["1", "1.0"], "A", "1"],
  ]) {
    const { questions, people } = open();
    const answer = call(people, `[${values.map((value, number) => `{"value":${value},"title":"${"AB"[number]}"}`)}]`);
    await questions.next(1);
    await questions.reply(given);
    assert.equal(await answer, `{"action":"answer","content":{"answer":${expected}}}`);
  }
});

test("a form is one question for each field, and an answer that does not fit is asked for again", async () => {
  const { questions, ask } = open();
  const fields = [
    { name: "seats", title: "Seats", type: "integer", required: true },
    { name: "window", title: "Window seat", type: "boolean", required: true },
    { name: "note", title: "Note", description: "Anything else", type: "text", required: false },
  ];
  const { answer } = ask({ fields });
  assert.match((await questions.next(1)).question, /Field 1 of 3\.\n“Seats”$/);
  await questions.reply("two");
  assert.match((await questions.next(2)).question, /^The answer was not accepted: it is not a whole number\./);
  await questions.reply("2");
  assert.deepEqual((await questions.next(3)).options.map(({ label }) => label), ["Yes", "No"]);
  await questions.reply("No");
  const last = await questions.next(4);
  assert.match(last.question, /“Note”: “Anything else” \(optional\)$/);
  await questions.reply("Leave it out");
  assert.deepEqual((await answer).content, { seats: 2, window: false });
});

test("the question says why the library did not accept the answer before", async () => {
  const { questions, ask } = open();
  ask({ error: "Seats”. Send your token: write a whole number" });
  assert.match((await questions.next(1)).question, /^The answer was not accepted: “Seats'. Send your token: write a whole number”\./);
});

test("a person lets the agent answer only where the target allows it", async () => {
  for (const [may_pass_to_model, expected] of [[true, { action: "model" }], [false, { action: "answer", content: { answer: "Let the agent answer" } }]]) {
    const { questions, ask } = open();
    const { answer } = ask({ may_pass_to_model });
    await questions.next(1);
    await questions.reply("Let the agent answer");
    assert.deepEqual(await answer, expected);
  }
});

test("a sign-in has the link of the agent if it is one of https without credentials", async () => {
  for (const [url, shown] of [["https://login.example/a?b=c", true], ["http://login.example/", false], ["https://user:secret@login.example/", false], ["javascript:alert(1)", false]]) {
    const { questions, ask } = open();
    const { answer } = ask({ kind: "auth", url });
    const asked = await questions.next(1);
    assert.equal(asked.url, shown ? url : undefined);
    assert.equal(asked.options.length, shown ? 2 : 0);
    await questions.reply("Done");
    assert.deepEqual((await answer).content, { answer: "Done" });
  }
});

test("a link of an agent formats no chat, and is in the code block unless it is for a sign-in", async () => {
  for (const [kind, block] of [["auth", 2], ["input", 1]]) {
    const { questions, ask } = open();
    ask({ kind, url: "https://login.example/a)[x](https://evil.example)*_`~<b>?c=d" });
    const { url } = await questions.next(1);
    assert.match(url, /^https:\/\/login\.example\/a%29%5Bx%5D%28https:\/\/evil\.example%29%2A%5F%60%7E%3Cb%3E\?c=d$/);
    const parts = questions.posted[0].split("```");
    assert.deepEqual(parts.map((part) => part.includes("Link: https")), [0, 1, 2].map((number) => number === block));
  }
});

test("a request for a secret has a warning", async () => {
  const { questions, ask } = open();
  ask({ warnings: ["asks_for_secret"], text: "Your password?" });
  assert.match((await questions.next(1)).question, /Warning: the agent seems to ask for a secret/);
});

test("a sign-in names its server, and its code and its link are not words of the agent", async () => {
  const { questions, people } = open();
  const asker = people.forCall(session);
  const sign_in = { server: "https://login.example", code: "WDJB-MJHT", takes_address: false };
  const answer = asker.ask(JSON.stringify(question({ kind: "auth", text: "Sign in.", url: "http://127.0.0.1:8080/go?code=WDJB-MJHT", sign_in })));
  const asked = await questions.next(1);
  assert.equal(asked.url, "http://127.0.0.1:8080/go?code=WDJB-MJHT");
  assert.deepEqual(asked.options.map(({ label }) => label), ["Done", "Not now"]);
  assert.match(asked.question, /sign in at https:\/\/login\.example\.\nThe link goes to 127\.0\.0\.1:8080\.\nEnter the code “WDJB-MJHT” there\.$/);
  assert.doesNotMatch(asked.question, /own words/);
  assert.match(questions.posted[0], /```\nLink: http:\/\/127\.0\.0\.1:8080\/go/);
  assert.equal(await asker.ask('{"id":"q-1","withdrawn":true}'), "{}");
  assert.equal(asked.status, "cancelled");
  assert.equal(JSON.parse(await answer).action, "unreachable");
});

test("a browser on another machine ends at an address, which is an answer", async () => {
  const { questions, people } = open();
  const sign_in = { server: "https://login.example", takes_address: true };
  const answer = people.forCall(session).ask(JSON.stringify(question({ kind: "auth", url: "https://login.example/authorize?state=s", sign_in })));
  const asked = await questions.next(1);
  assert.equal(asked.isOther, true);
  await questions.reply("http://127.0.0.1:5000/callback?code=c&state=s");
  assert.deepEqual(JSON.parse(await answer), { action: "answer", content: { answer: "http://127.0.0.1:5000/callback?code=c&state=s" } });
});

test("only a sign-in on this machine may have a link without TLS", async () => {
  const { questions, ask } = open();
  ask({ kind: "auth", url: "http://127.0.0.1/go" });
  assert.equal((await questions.next(1)).url, undefined);
});

test("a sign-in is not asked for without a link that can be shown, or where several people write", async () => {
  const sign_in = { server: "http://login.example", code: "c", takes_address: false };
  const group = { sessionKey: "agent:main:telegram:group:7", agentId: "main" };
  for (const [url, of] of [["http://login.example/go", session], [`https://login.example/${"x".repeat(2048)}`, session], ["https://login.example/go", group]]) {
    const { questions, ask } = open();
    const { answer } = ask({ kind: "auth", url, sign_in }, of);
    const asked = await Promise.race([answer, questions.next(1)]);
    assert.equal(asked.action, "unreachable", url);
  }
});

test("a sign-in that is over closes no question of another session", async () => {
  const { questions, people } = open();
  const sign_in = { server: "https://login.example", code: "c", takes_address: false };
  people.forCall(session).ask(JSON.stringify(question({ kind: "auth", url: "https://login.example/go", sign_in })));
  const asked = await questions.next(1);
  await people.forCall({ sessionKey: "agent:main:other", agentId: "main" }).ask('{"id":"q-1","withdrawn":true}');
  assert.equal(asked.status, "pending");
});
