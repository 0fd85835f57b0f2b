#![allow(clippy::unwrap_used)]

use std::pin::Pin;
use std::task::{Context, Poll};

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex, split,
};

use super::*;
use crate::server::tests::server;

/// A host, whose server ends with the test.
struct Host {
    input: Option<WriteHalf<DuplexStream>>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    ended: CancellationToken,
}

impl Host {
    fn start() -> Self {
        let (host, process) = duplex(64 << 10);
        let (input, output) = split(process);
        let ended = CancellationToken::new();
        let transport = LineTransport::new(input, output, ended.clone());
        tokio::spawn(serve(server().0, transport));
        let (output, input) = split(host);
        Self {
            input: Some(input),
            output: BufReader::new(output).lines(),
            ended,
        }
    }

    async fn write(&mut self, text: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(text).await.unwrap();
    }

    async fn end_input(&mut self) {
        self.input.take().unwrap().shutdown().await.unwrap();
    }

    /// Returns the code and id of the next answer; 0 for a result.
    async fn answer(&mut self) -> (i64, Value) {
        let line = self.output.next_line().await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        let code = answer["error"]["code"].as_i64().unwrap_or_default();
        (code, answer["id"].clone())
    }

    async fn initialize(&mut self) {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}});
        let line = json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params});
        self.write(format!("{line}\n").as_bytes()).await;
        assert_eq!(self.answer().await, (0, json!("i")));
    }
}

const LIST: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/list\"}\n";

#[tokio::test(start_paused = true)]
async fn line_that_is_no_message_is_answered() {
    let mut host = Host::start();
    host.initialize().await;
    for (line, code, id) in [
        (&b"not json"[..], -32700, json!(null)),
        (b"\xFF\xFE", -32700, json!(null)),
        (b"[]", -32600, json!(null)),
        (b"{}", -32600, json!(null)),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":[]}",
            -32602,
            json!(1),
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"x\"}",
            -32601,
            json!(2),
        ),
        (
            b"\n  \r\n{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}\r",
            0,
            json!(3),
        ),
        (
            b"\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\"}",
            0,
            json!(4),
        ),
    ] {
        host.write(&[line, b"\n"].concat()).await;
        assert_eq!(host.answer().await, (code, id), "{line:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn method_that_the_server_lacks_is_named_in_one_way() {
    let mut host = Host::start();
    host.initialize().await;
    for method in [
        "resources/list",
        "prompts/list",
        "logging/setLevel",
        "foo",
        "subscriptions/listen",
        "skills/list",
        "skills/get",
        "resources/directory/read",
    ] {
        let params = json!({"level": "info", "uri": "skill://a/SKILL.md", "notifications": {}});
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        host.write(format!("{line}\n").as_bytes()).await;
        let answer = host.output.next_line().await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let expected = json!({"code": -32601, "message": format!("unknown method `{method}`")});
        assert_eq!(answer["error"], expected);
    }
}

/// An output like `/dev/full`.
struct Full;

impl AsyncWrite for Full {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::Error::other("no space")))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn failed_write_names_only_its_cause() {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}});
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let input = io::Cursor::new(format!("{line}\n"));
    let transport = LineTransport::new(input, Full, CancellationToken::new());
    let error = serve(server().0, transport).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot write an answer: no space");
}

#[tokio::test(start_paused = true)]
async fn messages_before_the_first_request_are_ignored() {
    let mut host = Host::start();
    for line in [
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"\"}}\n",
    ] {
        host.write(line.as_bytes()).await;
    }
    host.write(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"initialize\",\"params\":{}}\n")
        .await;
    assert_eq!(host.answer().await, (-32602, json!(2)));
    host.initialize().await;
    host.write(LIST).await;
    assert_eq!(host.answer().await, (0, json!(9)));
}

#[tokio::test(start_paused = true)]
async fn last_line_needs_no_line_end() {
    let mut host = Host::start();
    host.initialize().await;
    host.write(LIST.trim_ascii_end()).await;
    host.end_input().await;
    assert_eq!(host.answer().await, (0, json!(9)));

    let mut host = Host::start();
    host.write(b"{\"jsonrpc\":").await;
    host.end_input().await;
    assert_eq!(host.answer().await, (-32700, json!(null)));
    host.ended.cancelled().await;
}

#[tokio::test(start_paused = true)]
async fn line_beyond_the_maximum_is_refused() {
    let mut host = Host::start();
    host.initialize().await;
    let part = vec![b'x'; 1 << 20];
    for _ in 0..=MAX_LINE_BYTES >> 20 {
        host.write(&part).await;
    }
    host.write(b"\n").await;
    assert_eq!(host.answer().await, (-32600, json!(null)));
    host.write(LIST).await;
    assert_eq!(host.answer().await, (0, json!(9)));
}

#[tokio::test(start_paused = true)]
async fn open_id_is_refused_and_an_answered_one_is_not() {
    let transport = LineTransport::new(
        tokio::io::empty(),
        tokio::io::sink(),
        CancellationToken::new(),
    );
    let parse = || transport.parse(Line::Bytes(LIST.to_vec()));
    assert!(parse().unwrap().is_some());
    let refusal: Value = serde_json::from_str(&parse().unwrap_err().to_json()).unwrap();
    assert_eq!(
        (&refusal["id"], &refusal["error"]["code"]),
        (&json!(9), &json!(-32600))
    );
    let cancel =
        br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#;
    transport.parse(Line::Bytes(cancel.to_vec())).unwrap();
    assert!(parse().unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn host_that_never_reads_is_read_no_further() {
    for flood in [LIST, b"not json\n"] {
        let mut host = Host::start();
        host.initialize().await;
        let requests = flood.repeat((64 << 10) / flood.len());
        let mut written = 0;
        // The clock is paused: the time is over once nothing moves.
        while written < 8 << 20 {
            let write = tokio::time::timeout(Duration::from_secs(60), host.write(&requests));
            if write.await.is_err() {
                break;
            }
            written += requests.len();
        }
        assert!(written < 2 * MAX_QUEUED_BYTES, "{written}");
    }
}

#[tokio::test(start_paused = true)]
async fn host_may_write_all_requests_first() {
    let mut host = Host::start();
    host.initialize().await;
    for id in 0..1000 {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
        host.write(format!("{line}\n").as_bytes()).await;
    }
    let mut ids = HashSet::new();
    for _ in 0..1000 {
        ids.insert(host.answer().await.1.as_i64().unwrap());
    }
    assert_eq!(ids.len(), 1000);
}
