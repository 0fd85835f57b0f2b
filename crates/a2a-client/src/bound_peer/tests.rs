//! Answers that only a query of the task completes.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::sync::Mutex;

use egress::sse::SseLimits;
use egress::{HttpClient, NetError, Response};
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use peer::{BoxFuture, CardLocation, PeerConfig};
use serde_json::json;

use super::super::peer_secrets::PeerSecrets;
use super::*;

/// A server that gives these answers in turn.
struct Answers(Mutex<VecDeque<(u16, String)>>);

impl HttpClient for Answers {
    fn exchange(&self, _: egress::Request) -> BoxFuture<'_, Result<Response, NetError>> {
        let (status, body) = self.0.lock().unwrap().pop_front().unwrap();
        Box::pin(std::future::ready(Ok(Response {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Box::pin(stream::iter([Ok(bytes::Bytes::from(body))])),
        })))
    }
}

fn peer(transport: Transport, answers: &[(u16, String)]) -> BoundPeer {
    let url = Url::parse("https://a.example/").unwrap();
    let config = PeerConfig::new(url.clone(), CardLocation::Path("/card".into()));
    let limits = SseLimits {
        event_bytes: 1 << 20,
        answer_bytes: 1 << 20,
    };
    let net = Arc::new(Answers(Mutex::new(answers.to_vec().into())));
    let secrets = Arc::new(PeerSecrets::new(&config));
    let http = HttpBinding::new(net, &config, &url, &[], limits, secrets).unwrap();
    let state = Arc::default();
    BoundPeer::new(http, transport, url, Version::V1_0, None, &state)
}

fn task(state: &str, more: (&str, Value)) -> String {
    let mut task = json!({"id": "t", "status": {"state": state}});
    task[more.0] = more.1;
    task.to_string()
}

#[tokio::test]
async fn cancellation_without_a_task_is_followed_by_a_query() {
    for transport in [Transport::JsonRpc, Transport::HttpJson] {
        for (status, body) in [
            (204, ""),
            (200, ""),
            (200, "null"),
            (200, r#"{"jsonrpc":"2.0"}"#),
        ] {
            let canceled = (200, task("TASK_STATE_CANCELED", ("history", json!([]))));
            let peer = peer(transport, &[(status, body.to_owned()), canceled]);
            let task = peer.cancel("t").await.unwrap();
            assert_eq!(task.state(), a2a::TaskState::Canceled, "{body}");
        }
    }
}

#[tokio::test]
async fn task_of_an_unreadable_answer_is_queried() {
    for transport in [Transport::JsonRpc, Transport::HttpJson] {
        let unreadable = || (200, task("TASK_STATE_WORKING", ("artifacts", json!(5))));
        let done = (200, task("TASK_STATE_COMPLETED", ("artifacts", json!([]))));
        let answer: Value = serde_json::from_str(&unreadable().1).unwrap();
        let Reply::Task(task) = peer(transport, &[done])
            .reply(answer.clone())
            .await
            .unwrap()
        else {
            unreachable!("the answer is a task");
        };
        assert_eq!(task.state(), a2a::TaskState::Completed);
        let error = peer(transport, &[unreadable()]).reply(answer).await;
        assert_eq!(error.unwrap_err().kind, PeerErrorKind::InvalidResponse);
    }
}
