//! Discovery, subscriptions, workspaces, broadcasts, services.

use serde_json::{Value, json};

use super::{client, exchange, exchange_error, gateway, listener, message};
use crate::gateway::{support::voters, tool_fixture::within_timeout};

fn subscribe(agents: Value) -> Value {
    json!({"type": "subscribe", "content": {"channel": "agent:status", "agents": agents}})
}

#[tokio::test]
async fn h_29_discovery_has_the_id_of_its_request() {
    let gateway = gateway(json!({})).await;
    let request = json!({"type": "discovery", "id": "d-1", "content": {"action": "list"}, "metadata": {"correlationId": "dc-1"}});
    let listed = exchange(
        &client(&gateway).await,
        request,
        json!({"/type": "discovery"}),
    )
    .await;
    assert_eq!(listed["metadata"]["correlationId"], "dc-1", "{listed}");
    let names: Vec<&str> = listed["content"]["agents"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|agent| agent["name"].as_str())
        .collect();
    let all = [
        "main",
        "steward",
        "alpha",
        "beta",
        "charlie",
        "examiner",
        "explorer",
        "sentinel",
        "coder",
        "dreamer",
        "empath",
        "historian",
    ];
    assert_eq!(names, all);
}

#[tokio::test]
async fn h_30_every_status_is_one_of_five() {
    let gateway = gateway(json!({})).await;
    let _alpha = listener(&gateway, "alpha").await;
    let request = json!({"type": "discovery", "content": {"action": "list"}});
    let listed = exchange(
        &client(&gateway).await,
        request,
        json!({"/type": "discovery"}),
    )
    .await;
    for agent in listed["content"]["agents"].as_array().unwrap() {
        let status = agent["status"].as_str().unwrap();
        let expected = if agent["name"] == "alpha" {
            ["online", "idle"]
        } else {
            ["offline", "offline"]
        };
        assert!(expected.contains(&status), "{agent}");
    }
}

#[tokio::test]
async fn h_32_subscription_receives_current_state_once() {
    let gateway = gateway(json!({})).await;
    let _alpha = listener(&gateway, "alpha").await;
    let client = client(&gateway).await;
    let reported = exchange(
        &client,
        subscribe(json!(["alpha", "beta"])),
        json!({"/type": "subscribe"}),
    )
    .await;
    assert_eq!(reported["content"]["channel"], "agent:status", "{reported}");
    assert_eq!(reported["content"]["status"], "subscribed", "{reported}");
    let alpha = within_timeout(
        client
            .log()
            .frame(1, &json!({"/type": "status", "/content/agent": "alpha"})),
    )
    .await;
    assert_ne!(alpha["content"]["status"], "offline", "{alpha}");
    let beta = within_timeout(
        client
            .log()
            .frame(1, &json!({"/type": "status", "/content/agent": "beta"})),
    )
    .await;
    assert_eq!(beta["content"]["status"], "offline", "{beta}");
    super::assert_alive(&client).await;
    assert_eq!(client.log().matching(&json!({"/type": "status"})).len(), 2);
}

#[tokio::test]
async fn h_32_changes_are_reported_until_unsubscribe() {
    let gateway = gateway(json!({})).await;
    let client = client(&gateway).await;
    exchange(
        &client,
        subscribe(json!(["alpha"])),
        json!({"/type": "subscribe"}),
    )
    .await;
    let of_alpha = json!({"/type": "status", "/content/agent": "alpha"});
    within_timeout(client.log().frame(1, &of_alpha)).await;
    let alpha = listener(&gateway, "alpha").await;
    let came = within_timeout(client.log().frame(2, &of_alpha)).await;
    assert_eq!(came["content"]["previous"], "offline", "{came}");
    let leave = json!({"type": "unsubscribe", "content": {"channel": "agent:status"}});
    let reported = exchange(&client, leave, json!({"/content/status": "unsubscribed"})).await;
    assert_eq!(reported["content"]["channel"], "agent:status", "{reported}");
    drop(alpha);
    // Waits until the gateway has noticed that alpha disconnected, which a message to alpha shows.
    let gone = within_timeout(async {
        loop {
            let reported = exchange(
                &client,
                message("alpha", json!({})),
                json!({"/type": "error"}),
            )
            .await;
            if reported["content"]["code"] == 3002 {
                return;
            }
        }
    });
    gone.await;
    assert_eq!(client.log().matching(&of_alpha).len(), 2);
}

#[tokio::test]
async fn h_32_unknown_channel_and_empty_status_are_errors() {
    let gateway = gateway(json!({})).await;
    let client = client(&gateway).await;
    let unknown = json!({"type": "subscribe", "content": {"channel": "agent:mood"}});
    assert_eq!(exchange_error(&client, unknown).await, 2005);
    assert_eq!(
        exchange_error(&client, json!({"type": "status"})).await,
        2002
    );
}

#[tokio::test]
async fn h_33_workspaces_are_listed_with_their_sessions() {
    let gateway = gateway(json!({})).await;
    let _coder =
        voters::start_agent(&gateway.url, "coder", json!([voters::answer_rule("done")])).await;
    let client = client(&gateway).await;
    exchange(
        &client,
        message("coder", json!({"sessionId": "s-1"})),
        json!({"/type": "message"}),
    )
    .await;
    let request = json!({"type": "workspace", "content": {"action": "list"}});
    let listed = exchange(&client, request, json!({"/type": "workspace"})).await;
    let workspaces = listed["content"]["workspaces"].as_array().unwrap();
    let coder = workspaces
        .iter()
        .find(|workspace| workspace["agent"] == "coder")
        .unwrap();
    assert!(coder["path"].is_string(), "{listed}");
    assert_eq!(coder["sessions"], 1, "{listed}");
}

#[tokio::test]
async fn h_34_broadcast_reaches_all_but_its_sender() {
    let gateway = gateway(json!({})).await;
    let alpha = listener(&gateway, "alpha").await;
    let beta = listener(&gateway, "beta").await;
    let steward = listener(&gateway, "steward").await;
    let broadcast = json!({"type": "broadcast", "id": "b-1", "content": {"message": "hear, hear"}, "metadata": {"correlationId": "bc-1"}});
    let reported = exchange(&steward, broadcast, json!({"/type": "response"})).await;
    let mut delivered: Vec<Value> = reported["content"]["result"]["delivered"]
        .as_array()
        .unwrap()
        .clone();
    delivered.sort_by_key(Value::to_string);
    assert_eq!(delivered, [json!("alpha"), json!("beta")], "{reported}");
    assert_eq!(reported["metadata"]["correlationId"], "bc-1", "{reported}");
    for agent in [&alpha, &beta] {
        let received = within_timeout(agent.log().frame(1, &json!({"/type": "broadcast"}))).await;
        assert_eq!(
            (&received["content"]["message"], &received["from"]),
            (&json!("hear, hear"), &json!("steward")),
            "{received}"
        );
    }
    assert_eq!(
        steward.log().matching(&json!({"/type": "broadcast"})).len(),
        0
    );
}

#[tokio::test]
async fn h_34_unregistered_service_is_not_found() {
    let gateway = gateway(json!({})).await;
    let request = json!({"type": "request", "content": {"service": "weather"}, "metadata": {"correlationId": "r-1"}});
    assert_eq!(exchange_error(&client(&gateway).await, request).await, 3001);
}

#[tokio::test]
async fn decision_is_an_event_for_subscribers() {
    let gateway = gateway(json!({})).await;
    let _triad = voters::start_triad(&gateway.url).await;
    let watcher = client(&gateway).await;
    let channel = json!({"type": "subscribe", "content": {"channel": "triad:decision"}});
    exchange(&watcher, channel, json!({"/type": "subscribe"})).await;
    let steward = listener(&gateway, "steward").await;
    let fields = json!({"content": {"proposal": "alpha=approve beta=approve charlie=approve"}});
    exchange(
        &steward,
        super::proposal(fields),
        json!({"/type": "decision"}),
    )
    .await;
    let event = within_timeout(watcher.log().frame(1, &json!({"/type": "event"}))).await;
    assert!(event["content"]["event"].is_string(), "{event}");
    assert!(
        event.to_string().contains("p-1") && event.to_string().contains("approved"),
        "{event}"
    );
}
