//! Streams many tasks side by side, and takes the times.

use std::time::{Duration, Instant};

use bytes::Bytes;
use egress::{Access, HttpClient, Net, Request};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::json;
use url::Url;

/// What came of a load.
pub(crate) struct Measured {
    /// From the request to the first event, of each task, shortest first.
    pub(crate) first: Vec<Duration>,
    /// From the request to the end.
    pub(crate) whole: Vec<Duration>,
    pub(crate) events: u64,
    /// All of it.
    pub(crate) took: Duration,
}

/// `rounds` times `tasks` streams at a time, each of a task that says at least so many pieces.
pub(crate) async fn load(
    endpoint: Url,
    said: &str,
    pieces: u64,
    tasks: usize,
    rounds: usize,
) -> Measured {
    let net = HttpClient::new().unwrap();
    // Connections, caches and the interpreter are warm then.
    join_all((0..tasks.min(20)).map(|_| one(&net, &endpoint, "chunks 3", 3))).await;
    let (mut first, mut whole, mut events) = (Vec::new(), Vec::new(), 0);
    let began = Instant::now();
    for _ in 0..rounds {
        let all = join_all((0..tasks).map(|_| one(&net, &endpoint, said, pieces))).await;
        for (to_first, to_end, count) in all {
            first.push(to_first);
            whole.push(to_end);
            events += count;
        }
    }
    let took = began.elapsed();
    first.sort();
    whole.sort();
    Measured {
        first,
        whole,
        events,
        took,
    }
}

/// The time to its first event and to its end, and how many events there were.
async fn one(
    net: &HttpClient,
    endpoint: &Url,
    said: &str,
    pieces: u64,
) -> (Duration, Duration, u64) {
    let message = json!({
        "messageId": uuid::Uuid::new_v4().to_string(), "role": "ROLE_USER", "parts": [{"text": said}],
    });
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message},
    });
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers.insert("a2a-version", HeaderValue::from_static("1.0"));
    let request = Request {
        method: Method::POST,
        url: endpoint.clone(),
        headers,
        body: Some(Bytes::from(body.to_string())),
        access: Access::AnyAddress,
        trust: None,
        repeatable: false,
        authorization: None,
    };
    let began = Instant::now();
    let mut response = net.exchange(request).await.unwrap();
    assert_eq!(response.status, 200);
    let (mut first, mut count, mut tail) = (None, 0, Vec::new());
    while let Some(bytes) = response.body.next().await {
        let bytes = bytes.unwrap();
        let events =
            bytes.windows(5).filter(|five| *five == b"data:").count() + split(&tail, &bytes);
        if events > 0 {
            first.get_or_insert_with(|| began.elapsed());
        }
        count += events as u64;
        tail = last(tail, &bytes);
    }
    let end = String::from_utf8_lossy(&tail);
    // A listener that falls behind is given the task as it stands in place of what it missed.
    assert!((3..=pieces + 3).contains(&count), "{count} events: {end}");
    assert!(end.contains("TASK_STATE_COMPLETED"), "{end}");
    (first.unwrap(), began.elapsed(), count)
}

/// Whether a `data:` lies across the end of what came before and the beginning of what came now.
fn split(before: &[u8], now: &[u8]) -> usize {
    let before = &before[before.len().saturating_sub(4)..];
    let edge = [before, &now[..now.len().min(4)]].concat();
    let whole_before = before.len();
    let crosses = |at: usize| at < whole_before && at + 5 > whole_before;
    let mut starts = edge.windows(5).enumerate();
    usize::from(starts.any(|(at, five)| five == b"data:" && crosses(at)))
}

/// The end of all that came, as long as an event of the last state is.
fn last(mut before: Vec<u8>, now: &[u8]) -> Vec<u8> {
    const LONG: usize = 4096;
    before.extend_from_slice(&now[now.len().saturating_sub(LONG)..]);
    let cut = before.len().saturating_sub(LONG);
    before.drain(..cut);
    before
}
