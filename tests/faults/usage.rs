//! What agents report that tasks used, in both versions over both transports.

use serde_json::{Value, json};

use crate::contract::in_process::check_result;
use crate::faults::dialect::dialects;
use crate::faults::tool_fixture::{ToolFixture, send_request, stream_request};

fn used() -> Value {
    json!({"adk_usage_metadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}, "cost_usd": "0.07"})
}

fn expected() -> Value {
    json!({"tokens": {"input": 10, "output": 5, "total": 15}, "usd_micros": 70_000, "estimated": false})
}

#[tokio::test]
async fn usage_of_an_answer_is_in_the_summary() {
    for dialect in dialects() {
        let [send, ..] = dialect.operations;
        let task = json!({"id": "t-1", "contextId": "c-1", "status": {"state": dialect.completed}, "metadata": used()});
        let peer = dialect
            .peer(vec![(send, (dialect.answer)((dialect.task)(task)))])
            .await;
        let envelope = ToolFixture::with_peers(&peer).call(&send_request()).await;
        check_result(&envelope);
        assert_eq!(envelope["summary"]["usage"], expected(), "{}", dialect.name);
    }
}

#[tokio::test]
async fn usage_of_events_and_of_the_task_counts_once() {
    for dialect in dialects() {
        let [_, stream, ..] = dialect.operations;
        let working = json!({"taskId": "t-1", "contextId": "c-1", "status": {"state": dialect.working}, "metadata": used()});
        let piece = json!({"taskId": "t-1", "contextId": "c-1", "artifact": {"artifactId": "a", "parts": [], "metadata": used()}});
        let completed = json!({"id": "t-1", "contextId": "c-1", "status": {"state": dialect.completed}, "metadata": used()});
        let events = [
            (dialect.status)(working),
            (dialect.artifact)(piece),
            (dialect.task)(completed),
        ];
        let events: Vec<Value> = events.into_iter().map(dialect.event).collect();
        let peer = dialect.peer(vec![(stream, json!({ "sse": events }))]).await;
        let envelope = ToolFixture::with_peers(&peer).call(&stream_request()).await;
        check_result(&envelope);
        assert_eq!(envelope["summary"]["usage"], expected(), "{}", dialect.name);
    }
}

#[tokio::test]
async fn hostile_report_is_a_valid_result() {
    for dialect in dialects() {
        let [send, ..] = dialect.operations;
        let metadata = json!({"cost_usd": 1e308, "usage": {"input": u64::MAX, "output": "NaN", "cost": {"amount": -1, "currency": "<b>"}}});
        let task =
            json!({"id": "t-1", "status": {"state": dialect.completed}, "metadata": metadata});
        let peer = dialect
            .peer(vec![(send, (dialect.answer)((dialect.task)(task)))])
            .await;
        let envelope = ToolFixture::with_peers(&peer).call(&send_request()).await;
        check_result(&envelope);
        let most = 9_007_199_254_740_991_u64;
        let expected = json!({"tokens": {"input": most, "total": most}, "usd_micros": most, "estimated": false});
        assert_eq!(envelope["summary"]["usage"], expected, "{}", dialect.name);
    }
}

#[tokio::test]
async fn nothing_is_added_where_nothing_is_reported() {
    for dialect in dialects() {
        let [send, ..] = dialect.operations;
        let task = json!({"id": "t-1", "status": {"state": dialect.completed}, "metadata": {"durationMs": 7}});
        let peer = dialect
            .peer(vec![(send, (dialect.answer)((dialect.task)(task)))])
            .await;
        let envelope = ToolFixture::with_peers(&peer).call(&send_request()).await;
        assert_eq!(envelope["summary"].get("usage"), None, "{}", dialect.name);
    }
}
