//! A receiver of OTLP/HTTP that decodes what arrives.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use base::text::hex;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;

/// A `traceparent`, with its trace id and the id of its span.
pub const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
pub const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";
pub const PARENT_ID: &str = "b7ad6b7169203331";

/// How long a batch may take. It is long enough for a busy machine.
const BATCH_TIMEOUT: Duration = Duration::from_secs(60);

pub struct OtlpReceiver {
    url: String,
    connections: Arc<AtomicUsize>,
    batches: Receiver<Batch>,
}

/// A request as it arrived.
pub struct Batch {
    pub head: String,
    pub body: Vec<u8>,
}

#[derive(Debug)]
pub struct ExportedSpan {
    pub name: String,
    pub trace_id: String,
    pub span_id: String,
    pub parent_id: String,
    pub is_server: bool,
    pub is_failed: bool,
    pub attributes: BTreeMap<String, String>,
    /// The attributes of its resource.
    pub resource: BTreeMap<String, String>,
}

impl ExportedSpan {
    /// Checks that it is what a `service` exports for a call below the span of [`TRACEPARENT`], with these attributes only.
    pub fn check_child_of_trace(&self, service: &str, attributes: &[(&str, &str)]) {
        assert_eq!(
            (
                &*self.trace_id,
                &*self.parent_id,
                self.is_server,
                self.is_failed
            ),
            (TRACE_ID, PARENT_ID, true, false)
        );
        let expected = attributes.iter();
        let expected = expected.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        assert_eq!(self.attributes, expected.collect());
        assert_eq!(self.resource["service.name"], service);
    }
}

impl OtlpReceiver {
    /// Starts a receiver that accepts each batch.
    pub fn start() -> Self {
        Self::answering(Some("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"))
    }

    /// Starts a receiver that answers each batch with this head, or with `None` never.
    pub fn answering(head: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let (sender, batches) = channel();
        let count = Arc::clone(&connections);
        // Ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                let sender = sender.clone();
                thread::spawn(move || receive(stream, head, &sender));
            }
        });
        Self {
            url,
            connections,
            batches,
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the variables of a server that exports to this receiver, each span at once.
    pub fn variables(&self) -> Vec<(String, String)> {
        let delay = ("OTEL_BSP_SCHEDULE_DELAY", "10");
        [("OTEL_EXPORTER_OTLP_ENDPOINT", self.url()), delay]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn batch(&self) -> Batch {
        self.batches.recv_timeout(BATCH_TIMEOUT).expect("a batch")
    }

    /// Waits for a span, and returns it with all batches up to its own.
    pub fn span(&self, name: &str) -> (ExportedSpan, Vec<Batch>) {
        let mut batches = Vec::new();
        loop {
            let batch = self.batch();
            let found = batch.spans().into_iter().find(|span| span.name == name);
            batches.push(batch);
            if let Some(span) = found {
                return (span, batches);
            }
        }
    }
}

fn receive(stream: TcpStream, head: Option<&str>, batches: &Sender<Batch>) {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        if reader.read_line(&mut request).unwrap_or(0) == 0 {
            return;
        }
    }
    let request = request.to_ascii_lowercase();
    let length = request
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let batch = Batch {
        head: request,
        body,
    };
    if batches.send(batch).is_err() {
        return;
    }
    match head {
        Some(head) => {
            let answer = format!("{head}Connection: close\r\n\r\n");
            let _ = reader.get_mut().write_all(answer.as_bytes());
        }
        // Until the client disconnects.
        None => drop(reader.read(&mut [0])),
    }
}

impl Batch {
    pub fn spans(&self) -> Vec<ExportedSpan> {
        let request = ExportTraceServiceRequest::decode(&*self.body).unwrap();
        let mut all = Vec::new();
        for of_resource in request.resource_spans {
            let resource = attributes(&of_resource.resource.unwrap().attributes);
            let of_scopes = of_resource.scope_spans.into_iter();
            all.extend(of_scopes.flat_map(|scope| scope.spans).map(|span| {
                let failed = StatusCode::Error as i32;
                ExportedSpan {
                    trace_id: hex(&span.trace_id),
                    span_id: hex(&span.span_id),
                    parent_id: hex(&span.parent_span_id),
                    is_server: span.kind == 2,
                    is_failed: span.status.is_some_and(|status| status.code == failed),
                    attributes: attributes(&span.attributes),
                    resource: resource.clone(),
                    name: span.name,
                }
            }));
        }
        all
    }

    /// Returns whether a text is anywhere in the request.
    pub fn contains(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        self.head.contains(&text.to_ascii_lowercase())
            || self.body.windows(bytes.len()).any(|part| part == bytes)
    }
}

fn attributes(all: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{other:?}"),
    };
    all.iter()
        .map(|pair| (pair.key.clone(), text(pair).unwrap_or_default()))
        .collect()
}
