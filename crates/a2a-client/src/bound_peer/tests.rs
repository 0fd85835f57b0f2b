//! Answers that only a query of the task completes.
#![allow(clippy::unwrap_used, clippy::panic)]

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
    let net = Arc::new(Answers(Mutex::new(answers.to_vec().into())));
    peer_at(url, transport, &config, net)
}

fn peer_at(
    url: Url,
    transport: Transport,
    config: &PeerConfig,
    net: Arc<dyn HttpClient>,
) -> BoundPeer {
    let limits = SseLimits {
        event_bytes: 1 << 20,
        answer_bytes: 1 << 20,
    };
    let secrets = Arc::new(PeerSecrets::new(config));
    let http = InterfaceClient::new(net, config, &url, &[], limits, secrets).unwrap();
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

#[tokio::test]
async fn error_of_a_server_in_front_of_the_agent_is_one_of_http_in_both_bindings() {
    use PeerErrorKind::{AuthRequired, HttpStatus, Rpc};
    use peer::Delivered::{Unknown, Yes};

    let google = json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "no"}});
    let a2a = json!({"error": {"code": -32603, "message": "no"}});
    let reason = json!({"error": {"message": "no", "details": [{"reason": "INTERNAL"}]}});
    for (status, body, kind, delivered) in [
        (504, json!({"message": "no"}), HttpStatus, Unknown),
        (503, json!({"detail": "no"}), HttpStatus, Unknown),
        (
            502,
            json!({"error": {"message": "no"}}),
            HttpStatus,
            Unknown,
        ),
        (
            503,
            json!({"error": {"code": 503, "message": "no"}}),
            HttpStatus,
            Unknown,
        ),
        (
            503,
            json!({"title": "Unavailable", "detail": "no"}),
            HttpStatus,
            Unknown,
        ),
        (524, json!({"message": "no"}), HttpStatus, Unknown),
        (429, json!({"message": "no"}), HttpStatus, Unknown),
        (401, json!({"detail": "no"}), AuthRequired, Unknown),
        (403, json!({"message": "no"}), AuthRequired, Unknown),
        (
            403,
            json!({"error": {"message": "no"}}),
            AuthRequired,
            Unknown,
        ),
        (503, google, Rpc, Yes),
        (502, reason, Rpc, Yes),
        (503, a2a.clone(), Rpc, Yes),
        (500, json!({"code": 13, "message": "no"}), Rpc, Yes),
        (503, json!({"code": 14, "message": "no"}), Rpc, Yes),
        (500, json!({"code": -32603, "message": "no"}), Rpc, Yes),
        (401, a2a, AuthRequired, Yes),
    ] {
        for transport in [Transport::JsonRpc, Transport::HttpJson] {
            let peer = peer(transport, &[(status, body.to_string())]);
            let error = peer.get_task("t", None).await.unwrap_err();
            let place = format!("{transport} {status} {body}: {}", error.message);
            assert_eq!((error.kind, error.delivered), (kind, delivered), "{place}");
            assert_eq!(error.http_status, Some(status), "{place}");
            assert!(error.message.contains(": no"), "{place}");
            let has_status = error.message.contains(&format!("responded {status}"));
            assert_eq!(has_status, delivered == Unknown, "{place}");
        }
    }
}

#[tokio::test]
async fn bare_message_of_an_agent_over_http_json_is_its_error() {
    for status in [400, 404, 409, 422, 500, 501] {
        let body = json!({"message": "no such thing"}).to_string();
        let peer = peer(Transport::HttpJson, &[(status, body)]);
        let error = peer.get_task("t", None).await.unwrap_err();
        assert_eq!(error.kind, PeerErrorKind::Rpc, "{status}");
    }
}

/// A network without the host of any request.
struct NoHost(egress::NetFault);

impl HttpClient for NoHost {
    fn exchange(&self, _: egress::Request) -> BoxFuture<'_, Result<Response, NetError>> {
        let error = NetError::new(self.0, egress::Sent::No, "no host");
        Box::pin(std::future::ready(Err(error)))
    }
}

#[tokio::test]
async fn unreachable_host_of_the_card_names_the_setting_that_replaces_it() {
    use egress::NetFault::{Dns, Tls, Unreachable};

    let [base, elsewhere] = ["https://a.example/", "https://my-agent:8000/a?key=s3cret"]
        .map(|url| Url::parse(url).unwrap());
    let config = PeerConfig {
        configured: true,
        ..PeerConfig::new(base.clone(), CardLocation::Path("/card".into()))
    };
    let with_endpoint = PeerConfig {
        endpoint: Some(elsewhere.clone()),
        ..config.clone()
    };
    for (fault, config, url, of_card) in [
        (Dns, &config, &elsewhere, true),
        (Unreachable, &config, &elsewhere, true),
        (Tls, &config, &elsewhere, false),
        (Dns, &config, &base, false),
        (Unreachable, &with_endpoint, &elsewhere, false),
    ] {
        for transport in [Transport::JsonRpc, Transport::HttpJson] {
            let peer = peer_at(url.clone(), transport, config, Arc::new(NoHost(fault)));
            let errors = [
                peer.get_task("t", None).await.err(),
                peer.cancel("t").await.err(),
                peer.resubscribe("t").await.err(),
            ];
            for error in errors {
                let message = error.unwrap().message;
                let names_setting =
                    message.contains("`https://my-agent:8000`, and the setting `endpoint`");
                assert_eq!(
                    names_setting, of_card,
                    "{fault:?} {transport} {url}: {message}"
                );
                assert!(!message.contains("s3cret"), "{message}");
            }
        }
    }
}

fn message_request() -> SendRequest {
    SendRequest {
        message_id: "m".into(),
        blocking: true,
        ..SendRequest::default()
    }
}

/// Returns these values as events.
fn events(values: &[Value]) -> String {
    values
        .iter()
        .map(|value| format!("data: {value}\n\n"))
        .collect()
}

#[tokio::test]
async fn one_answer_may_come_as_events() {
    let status = |state: &str| json!({"id": "t", "status": {"state": state}});
    let update = json!({"statusUpdate": {"taskId": "t", "status": {"state": "working"}}});
    for transport in [Transport::JsonRpc, Transport::HttpJson] {
        for values in [
            vec![status("completed")],
            vec![status("working"), status("completed")],
            vec![status("completed"), update.clone()],
        ] {
            let peer = peer(transport, &[(200, events(&values))]);
            let task = peer.get_task("t", None).await.unwrap();
            assert_eq!(task.state(), a2a::TaskState::Completed, "{values:?}");
        }
        let error =
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "gone"}});
        let peer = peer(transport, &[(200, events(&[error]))]);
        let error = peer.get_task("t", None).await.unwrap_err();
        assert_eq!(error.rpc_code, Some(-32001), "{error}");
    }
}

#[tokio::test]
async fn text_of_an_unreadable_answer_is_in_the_error() {
    let detail = json!({"detail": "model overloaded"}).to_string();
    let message = json!({"message": "model overloaded"}).to_string();
    for transport in [Transport::JsonRpc, Transport::HttpJson] {
        for answer in [&detail, &message, "<html>model overloaded</html>"] {
            let peer = peer(
                transport,
                &[(200, answer.to_owned()), (200, answer.to_owned())],
            );
            let sent = peer.send(&message_request()).await.unwrap_err();
            let got = peer.get_task("t", None).await.unwrap_err();
            for error in [sent, got] {
                assert_eq!(error.kind, PeerErrorKind::InvalidResponse, "{error}");
                assert!(error.message.contains("model overloaded"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn text_of_a_stream_without_events_is_in_its_error() {
    let task = json!({"id": "t", "status": {"state": "working"}});
    for (body, kind) in [
        (
            "data: {\"detail\":\"model overloaded\"}\n\n",
            PeerErrorKind::InvalidResponse,
        ),
        (
            "data: ping\n\ndata: {\"message\":\"model overloaded\"}\n\n",
            PeerErrorKind::InvalidResponse,
        ),
        ("data: model overloaded\n\n", PeerErrorKind::InvalidResponse),
        (
            "event: error\ndata: model overloaded\n\n",
            PeerErrorKind::Rpc,
        ),
        (
            "event: error\ndata: {\"message\":\"model overloaded\"}\n\n",
            PeerErrorKind::Rpc,
        ),
        (
            &format!("data: {task}\n\nevent: error\ndata: model overloaded\n\n"),
            PeerErrorKind::Rpc,
        ),
    ] {
        for transport in [Transport::JsonRpc, Transport::HttpJson] {
            let peer = peer(transport, &[(200, body.to_owned())]);
            let mut stream = peer.stream(&message_request()).await.unwrap();
            let error = loop {
                match stream.next().await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => break error,
                    None => panic!("no error: {body}"),
                }
            };
            assert_eq!(error.kind, kind, "{body}: {error}");
            assert!(error.message.contains("model overloaded"), "{error}");
        }
    }
}
