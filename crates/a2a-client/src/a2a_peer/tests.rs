#![allow(clippy::unwrap_used)]
use egress::NetFault;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;
use serde_json::json;

use super::*;

/// A peer that answers each request for a task with the next of its errors, and then with the task.
struct Scripted {
    protocol: NegotiatedProtocol,
    answers: Mutex<Vec<PeerError>>,
    requests: Arc<AtomicUsize>,
}

#[async_trait]
impl Peer for Scripted {
    fn protocol(&self) -> NegotiatedProtocol {
        self.protocol
    }

    async fn card(&self) -> Result<Card, PeerError> {
        unreachable!()
    }

    async fn send(&self, _: &SendRequest) -> Result<Reply, PeerError> {
        unreachable!()
    }

    async fn stream(&self, _: &SendRequest) -> Result<Box<dyn EventStream>, PeerError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let first = self.answers.lock().unwrap().pop();
        Ok(Box::new(Refusing(first)))
    }

    async fn get_task(&self, _: &str, _: Option<u64>) -> Result<Task, PeerError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let answer = self.answers.lock().unwrap().pop();
        let task = Task::read(json!({"id": "t", "status": {"state": "working"}})).unwrap();
        answer.map_or(Ok(task), Err)
    }

    async fn cancel(&self, _: &str) -> Result<Task, PeerError> {
        unreachable!()
    }

    async fn resubscribe(&self, _: &str) -> Result<Box<dyn EventStream>, PeerError> {
        unreachable!()
    }
}

/// A stream with one error, or a stream that stays silent.
struct Refusing(Option<PeerError>);

#[async_trait]
impl EventStream for Refusing {
    async fn next(&mut self) -> NextEvent {
        match self.0.take() {
            Some(error) => Some(Err(error)),
            None => std::future::pending().await,
        }
    }
}

/// Returns a peer with these answers, the last one first, and the number of its requests.
fn peer(version: Version, answers: &[PeerError]) -> (Box<dyn Peer>, Arc<AtomicUsize>) {
    let requests = Arc::<AtomicUsize>::default();
    let peer = Scripted {
        protocol: NegotiatedProtocol {
            version: version.as_str(),
            transport: Transport::JsonRpc,
        },
        answers: Mutex::new(answers.to_vec()),
        requests: Arc::clone(&requests),
    };
    (Box::new(peer), requests)
}

fn unversioned(peer: Box<dyn Peer>) -> VersionedInterface {
    VersionedInterface::new(peer, None, Arc::default())
}

fn rpc(code: i64) -> PeerError {
    let mut error = PeerError::new(PeerErrorKind::Rpc, format!("error {code}"));
    error.rpc_code = Some(code);
    error
}

fn count(requests: &AtomicUsize) -> usize {
    requests.load(Ordering::Relaxed)
}

fn alone(interface: VersionedInterface) -> A2aPeer {
    A2aPeer::new(interface, None)
}

#[tokio::test]
async fn fallback_in_use_is_called_first() {
    let away = PeerError::new(PeerErrorKind::Net(NetFault::Unreachable), "refused").undelivered();
    let (first, requests_first) = peer(Version::V1_0, &[away]);
    let (second, requests_second) = peer(Version::V0_3, &[]);
    let names = ["one".to_owned(), "two".to_owned()];
    let second = unversioned(second);
    let peer = A2aPeer::new(unversioned(first), Some(Fallback::new(names, Ok(second))));
    for _ in 0..2 {
        peer.get_task("t", None).await.unwrap();
    }
    assert_eq!((count(&requests_first), count(&requests_second)), (1, 2));
    assert_eq!(peer.protocol().version, "0.3");
}

#[tokio::test]
async fn contacted_interface_is_not_replaced() {
    let cut = PeerError::new(PeerErrorKind::Net(NetFault::Unreachable), "cut");
    let (first, _) = peer(Version::V1_0, &[cut]);
    let (second, requests) = peer(Version::V1_0, &[]);
    let second = unversioned(second);
    let other = Fallback::new([String::new(), String::new()], Ok(second));
    let peer = A2aPeer::new(unversioned(first), Some(other));
    assert!(peer.get_task("t", None).await.is_err());
    assert_eq!(count(&requests), 0);
}

#[tokio::test]
async fn error_names_refused_and_unreachable_interface() {
    let away = PeerError::new(PeerErrorKind::Net(NetFault::Dns), "no such name").undelivered();
    let (first, _) = peer(Version::V1_0, &[away]);
    let refused =
        PeerError::new(PeerErrorKind::Net(NetFault::AddressRefused), "not public").undelivered();
    let names = ["one".to_owned(), "two".to_owned()];
    let other = Fallback::new(names, Err(refused));
    let peer = A2aPeer::new(unversioned(first), Some(other));
    let error = peer.get_task("t", None).await.unwrap_err();
    assert_eq!(error.message, "one: no such name; two: not public");
    assert_eq!(error.kind, PeerErrorKind::Net(NetFault::AddressRefused));
}

#[tokio::test]
async fn confirmed_version_is_cached() {
    for (answers, known) in [
        (vec![], Some(Version::V1_0)),
        (vec![rpc(-32001)], Some(Version::V1_0)),
        (vec![rpc(-32600)], None),
        (
            vec![PeerError::new(PeerErrorKind::Net(NetFault::Cut), "cut")],
            None,
        ),
    ] {
        let state = Arc::<InterfaceState>::default();
        let (newer, _) = peer(Version::V1_0, &answers);
        let (older, requests) = peer(Version::V0_3, &[]);
        let interface = VersionedInterface::new(newer, Some(older), Arc::clone(&state));
        let _ = alone(interface).get_task("t", None).await;
        assert_eq!((state.version(), count(&requests)), (known, 0));
    }
}

#[tokio::test]
async fn rejected_version_falls_back_to_0_3() {
    for code in [
        ErrorReason::MethodNotFound,
        ErrorReason::VersionNotSupported,
    ]
    .map(|reason| i64::from(reason.code()))
    {
        let state = Arc::<InterfaceState>::default();
        let (newer, requests_newer) = peer(Version::V1_0, &[rpc(code)]);
        let (older, requests_older) = peer(Version::V0_3, &[]);
        let peer = alone(VersionedInterface::new(
            newer,
            Some(older),
            Arc::clone(&state),
        ));
        for _ in 0..2 {
            peer.get_task("t", None).await.unwrap();
        }
        assert_eq!((count(&requests_newer), count(&requests_older)), (1, 2));
        assert_eq!(state.version(), Some(Version::V0_3));
        assert_eq!(peer.protocol().version, "0.3");
    }
}

#[tokio::test]
async fn rejected_cached_version_is_reset() {
    let state = Arc::<InterfaceState>::default();
    state.set_version(Some(Version::V0_3));
    let (only, requests) = peer(
        Version::V0_3,
        &[rpc(ErrorReason::MethodNotFound.code().into())],
    );
    let peer = alone(VersionedInterface::new(only, None, Arc::clone(&state)));
    assert!(peer.get_task("t", None).await.is_err());
    assert_eq!((state.version(), count(&requests)), (None, 1));
}

#[test]
fn unknown_path_rejects_version_over_http_json_only() {
    let mut missing = PeerError::new(PeerErrorKind::HttpStatus, "404");
    missing.http_status = Some(404);
    assert!(rejects_version(&missing, Transport::HttpJson));
    assert!(!rejects_version(&missing, Transport::JsonRpc));
    let mut error = rpc(-32001);
    error.http_status = Some(404);
    assert!(!rejects_version(&error, Transport::HttpJson));
}

#[tokio::test]
async fn version_that_has_worked_is_kept() {
    let state = Arc::<InterfaceState>::default();
    let (newer, _) = peer(Version::V1_0, &[rpc(-32601), rpc(-32001)]);
    let (older, requests) = peer(Version::V0_3, &[]);
    let interface = VersionedInterface::new(newer, Some(older), Arc::clone(&state));
    let peer = alone(interface);
    for code in [-32001, -32601] {
        let error = peer.get_task("t", None).await.unwrap_err();
        assert_eq!(error.rpc_code, Some(code));
    }
    assert!(peer.get_task("t", None).await.is_ok());
    assert_eq!(
        (state.version(), count(&requests)),
        (Some(Version::V1_0), 0)
    );
}

fn outgoing() -> SendRequest {
    SendRequest {
        message_id: "m".into(),
        parts: Vec::new(),
        task_id: None,
        context_id: None,
        reference_task_ids: Vec::new(),
        accepted_output_modes: Vec::new(),
        blocking: true,
        followed: true,
        history_length: None,
        push_notification_config: None,
        extensions: Vec::new(),
        message_metadata: Default::default(),
        metadata: Default::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn version_that_the_first_event_rejects_falls_back() {
    for (code, expected) in [(-32601, Version::V0_3), (-32602, Version::V1_0)] {
        let state = Arc::<InterfaceState>::default();
        let (newer, _) = peer(Version::V1_0, &[rpc(code)]);
        let (older, requests) = peer(Version::V0_3, &[]);
        let interface = VersionedInterface::new(newer, Some(older), Arc::clone(&state));
        let peer = alone(interface);
        peer.stream(&outgoing()).await.unwrap();
        assert_eq!(state.version(), Some(expected), "{code}");
        assert_eq!(count(&requests), usize::from(expected == Version::V0_3));
    }
}
