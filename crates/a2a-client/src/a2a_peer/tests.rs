#![allow(clippy::unwrap_used)]
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use serde_json::json;

use super::*;

/// A peer that answers each question about a task with the next of its answers, and then with the task.
struct Scripted {
    protocol: NegotiatedProtocol,
    answers: Mutex<Vec<PeerError>>,
    asked: Arc<AtomicUsize>,
}

impl Peer for Scripted {
    fn protocol(&self) -> NegotiatedProtocol {
        self.protocol
    }

    fn card(&self) -> BoxFuture<'_, Result<Card, PeerError>> {
        unreachable!()
    }

    fn send<'a>(&'a self, _: &'a SendRequest) -> BoxFuture<'a, Result<Reply, PeerError>> {
        unreachable!()
    }

    fn stream<'a>(
        &'a self,
        _: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        unreachable!()
    }

    fn get_task<'a>(
        &'a self,
        _: &'a str,
        _: Option<u64>,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = self.answers.lock().unwrap().pop();
        let task = Task::read(json!({"id": "t", "status": {"state": "working"}})).unwrap();
        Box::pin(std::future::ready(answer.map_or(Ok(task), Err)))
    }

    fn cancel<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Task, PeerError>> {
        unreachable!()
    }

    fn resubscribe<'a>(
        &'a self,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        unreachable!()
    }
}

/// A peer that gives these answers, the last one first, and how often it was asked.
fn peer(version: Version, answers: &[PeerError]) -> (Box<dyn Peer>, Arc<AtomicUsize>) {
    let asked = Arc::<AtomicUsize>::default();
    let peer = Scripted {
        protocol: NegotiatedProtocol {
            version: version.as_str(),
            transport: Transport::JsonRpc,
        },
        answers: Mutex::new(answers.to_vec()),
        asked: Arc::clone(&asked),
    };
    (Box::new(peer), asked)
}

fn rpc(code: i64) -> PeerError {
    let mut error = PeerError::new(PeerErrorKind::Rpc, format!("error {code}"));
    error.rpc_code = Some(code);
    error
}

fn count(asked: &AtomicUsize) -> usize {
    asked.load(Ordering::Relaxed)
}

fn alone(interface: VersionedInterface) -> A2aPeer {
    A2aPeer::new(interface, None)
}

#[tokio::test]
async fn the_interface_that_stood_in_is_asked_first_from_then_on() {
    let away = PeerError::new(PeerErrorKind::Unreachable, "refused").undelivered();
    let (first, asked_first) = peer(Version::V1_0, &[away]);
    let (second, asked_second) = peer(Version::V0_3, &[]);
    let names = ["one".to_owned(), "two".to_owned()];
    let second = VersionedInterface::new(second, None, Arc::default());
    let peer = A2aPeer::new(
        VersionedInterface::new(first, None, Arc::default()),
        Some(Fallback::new(names, Ok(second))),
    );
    for _ in 0..2 {
        peer.get_task("t", None).await.unwrap();
    }
    assert_eq!((count(&asked_first), count(&asked_second)), (1, 2));
    assert_eq!(peer.protocol().version, "0.3");
}

#[tokio::test]
async fn an_interface_that_may_have_been_asked_is_not_replaced() {
    let cut = PeerError::new(PeerErrorKind::Unreachable, "cut");
    let (first, _) = peer(Version::V1_0, &[cut]);
    let (second, asked) = peer(Version::V1_0, &[]);
    let second = VersionedInterface::new(second, None, Arc::default());
    let other = Fallback::new([String::new(), String::new()], Ok(second));
    let peer = A2aPeer::new(
        VersionedInterface::new(first, None, Arc::default()),
        Some(other),
    );
    assert!(peer.get_task("t", None).await.is_err());
    assert_eq!(count(&asked), 0);
}

#[tokio::test]
async fn an_interface_that_may_not_be_called_is_named_with_the_one_out_of_reach() {
    let away = PeerError::new(PeerErrorKind::Dns, "no such name").undelivered();
    let (first, _) = peer(Version::V1_0, &[away]);
    let refused = PeerError::new(PeerErrorKind::AddressRefused, "not public").undelivered();
    let names = ["one".to_owned(), "two".to_owned()];
    let other = Fallback::new(names, Err(refused));
    let peer = A2aPeer::new(
        VersionedInterface::new(first, None, Arc::default()),
        Some(other),
    );
    let error = peer.get_task("t", None).await.unwrap_err();
    assert_eq!(error.message, "one: no such name; two: not public");
    assert_eq!(error.kind, PeerErrorKind::AddressRefused);
}

#[tokio::test]
async fn a_version_that_an_answer_bears_out_is_remembered() {
    for (answers, known) in [
        (vec![], Some(Version::V1_0)),
        (vec![rpc(-32001)], Some(Version::V1_0)),
        (vec![rpc(-32600)], None),
        (vec![PeerError::new(PeerErrorKind::Cut, "cut")], None),
    ] {
        let learned = Arc::<Learned>::default();
        let (newer, _) = peer(Version::V1_0, &answers);
        let (older, asked) = peer(Version::V0_3, &[]);
        let interface = VersionedInterface::new(newer, Some(older), Arc::clone(&learned));
        let _ = alone(interface).get_task("t", None).await;
        assert_eq!((learned.version(), count(&asked)), (known, 0));
    }
}

#[tokio::test]
async fn a_version_that_is_refused_leads_to_the_older_one_for_good() {
    for code in [
        ErrorReason::MethodNotFound,
        ErrorReason::VersionNotSupported,
    ]
    .map(|reason| i64::from(reason.code()))
    {
        let learned = Arc::<Learned>::default();
        let (newer, asked_newer) = peer(Version::V1_0, &[rpc(code)]);
        let (older, asked_older) = peer(Version::V0_3, &[]);
        let peer = alone(VersionedInterface::new(
            newer,
            Some(older),
            Arc::clone(&learned),
        ));
        for _ in 0..2 {
            peer.get_task("t", None).await.unwrap();
        }
        assert_eq!((count(&asked_newer), count(&asked_older)), (1, 2));
        assert_eq!(learned.version(), Some(Version::V0_3));
        assert_eq!(peer.protocol().version, "0.3");
    }
}

#[tokio::test]
async fn a_known_version_that_is_refused_later_is_open_again() {
    let learned = Arc::<Learned>::default();
    learned.set_version(Some(Version::V0_3));
    let (only, asked) = peer(
        Version::V0_3,
        &[rpc(ErrorReason::MethodNotFound.code().into())],
    );
    let peer = alone(VersionedInterface::new(only, None, Arc::clone(&learned)));
    assert!(peer.get_task("t", None).await.is_err());
    assert_eq!((learned.version(), count(&asked)), (None, 1));
}

#[test]
fn an_address_that_nobody_answers_at_refuses_the_version_over_http_json_alone() {
    let mut missing = PeerError::new(PeerErrorKind::HttpStatus, "404");
    missing.http_status = Some(404);
    assert!(refuses_version(&missing, Transport::HttpJson));
    assert!(!refuses_version(&missing, Transport::JsonRpc));
    let mut told = rpc(-32001);
    told.http_status = Some(404);
    assert!(!refuses_version(&told, Transport::HttpJson));
}
