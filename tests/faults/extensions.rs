//! Extensions of A2A that a target activates.

use serde_json::json;

use crate::faults::dialect::dialects;
use crate::faults::tool_fixture::{ToolFixture, message, peers, result, send_request};

const OFFERED: &str = "https://peers.test/offered/v1";
const ELSEWHERE: &str = "https://peers.test/elsewhere/v1";

/// Returns an instance whose target activates an extension that the card offers, and one that it does not.
fn with_extensions(origin: &str) -> ToolFixture {
    ToolFixture::with_target(json!({"baseUrl": origin, "extensions": [
        {"uri": OFFERED, "metadata": {"a2uiClientCapabilities": {"depth": 1}}},
        {"uri": ELSEWHERE, "metadata": {"never": "sent"}},
    ]}))
}

#[tokio::test]
async fn offered_extensions_are_sent_in_every_dialect() {
    for mut dialect in dialects() {
        dialect.card["capabilities"]["extensions"] = json!([{"uri": OFFERED}]);
        let task = (dialect.task)(dialect.task_in_state(dialect.completed));
        let peers = dialect
            .peer(vec![(dialect.operations[0], (dialect.answer)(task))])
            .await;
        let envelope = with_extensions(peers.origin("main"))
            .call(&send_request())
            .await;
        assert_eq!(envelope["ok"], true, "{}: {envelope}", dialect.name);
        let expected = json!({OFFERED: "unknown", ELSEWHERE: "not_offered"});
        assert_eq!(
            envelope["summary"]["extensions"], expected,
            "{}",
            dialect.name
        );

        let request = peers.log("main").pop().unwrap();
        let sent = |name: &str| request.headers.get(name).map(String::as_str);
        assert_eq!(sent("a2a-extensions"), Some(OFFERED), "{}", dialect.name);
        let old_name = dialect.name.starts_with("0.3").then_some(OFFERED);
        assert_eq!(sent("x-a2a-extensions"), old_name, "{}", dialect.name);
        let body = request.body.unwrap();
        let message = body.pointer("/params/message").unwrap_or(&body["message"]);
        assert_eq!(message["extensions"], json!([OFFERED]), "{}", dialect.name);
        let metadata = json!({"a2uiClientCapabilities": {"depth": 1}});
        assert_eq!(message["metadata"], metadata, "{}", dialect.name);
    }
}

#[tokio::test]
async fn extension_is_active_where_the_response_names_it() {
    let mut card = crate::faults::tool_fixture::card();
    card["capabilities"]["extensions"] = json!([{"uri": OFFERED}, {"uri": ELSEWHERE}]);
    let mut answer = result(message("pong"));
    answer["headers"] = json!({"X-A2A-Extensions": format!("https://peers.test/other, {OFFERED}")});
    let peers = peers(json!({"main": {"card": card, "rpc": {"message/send": answer}}})).await;
    let envelope = with_extensions(peers.origin("main"))
        .call(&send_request())
        .await;
    let expected = json!({OFFERED: "active", ELSEWHERE: "unknown"});
    assert_eq!(envelope["summary"]["extensions"], expected, "{envelope}");
}

#[test]
fn extensions_that_want_credentials_are_refused_by_name() {
    let prefix = "https://a2a-extensions.agentstack.beeai.dev";
    for (uri, refused) in [
        (format!("{prefix}/auth/secrets/v1"), true),
        (format!("{prefix}/services/llm/v1"), true),
        (format!("{prefix}/services/form/v1"), false),
        (format!("{prefix}/ui/citation/v1"), false),
    ] {
        let target =
            json!({"alias": "a", "baseUrl": "https://peers.test", "extensions": [{"uri": uri}]});
        let checked =
            openclaw_remote_agent::plugin::parse_config(&json!({"targets": [target]}).to_string());
        let error = checked.err().map(|error| error.to_string());
        let names_it = error.as_ref().is_some_and(|error| error.contains(&uri));
        assert_eq!(names_it, refused, "{uri}: {error:?}");
    }
}
