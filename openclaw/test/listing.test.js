import assert from "node:assert/strict";
import { test } from "node:test";

import { callState, cardState, faultOf, problemOf } from "../listing.js";

const error = (reason) => ({ reason, message: reason });

test("table tells a card from calls", () => {
  for (const [target, card, calls] of [
    [{ target_name: "Desk", tasks: [] }, "ok", "ok"],
    [{ target_name: "Desk" }, "ok", "?"],
    [{ target_name: "Desk", tasks_error: error("auth_required") }, "ok", "auth_required"],
    // The agent has no list of tasks, or not the task that was requested instead.
    [{ target_name: "Desk", tasks_error: error("rpc_error") }, "ok", "ok"],
    [{ target_name: "Desk", tasks_error: error("http_status") }, "ok", "?"],
    [{ target_name: "Desk", last_refresh_error: error("timeout") }, "old (timeout)", "-"],
    [{ last_refresh_error: error("dns") }, "dns", "-"],
    [{ target_name: "alpha", status: "offline" }, "offline", "?"],
    [{ target_name: "alpha", status: "online" }, "ok", "?"],
  ]) assert.deepEqual([cardState(target), callState(target)], [card, calls], JSON.stringify(target));
});

test("problem of a target is that of its card, or that of calls", () => {
  assert.equal(problemOf({ last_refresh_error: error("dns"), tasks_error: error("auth_required") }).reason, "dns");
  assert.equal(problemOf({ tasks_error: error("auth_required") }).reason, "auth_required");
  assert.equal(problemOf({ tasks_error: error("http_status") }), undefined);
});

test("open local gateway has no fault", () => {
  assert.equal(faultOf(undefined), undefined);
  assert.equal(faultOf({ url: "ws://127.0.0.1:1", state: "OPEN", last_error: "an earlier one" }), undefined);
  assert.match(faultOf({ url: "ws://127.0.0.1:1", state: "CLOSED", last_error: "refused" }), /^the local gateway at ws:\/\/127\.0\.0\.1:1 does not answer: refused$/);
});
