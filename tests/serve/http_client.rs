//! A client that sends raw requests, and the clients of a server.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use testkit::support::serve::Server;

/// A response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Response {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends a request with these headers. The `Host` header is that of the server unless `headers` contain one.
pub fn exchange(server: &Server, request_line: &str, headers: &[&str], body: &str) -> Response {
    exchange_at(server.url(), request_line, headers, body).unwrap()
}

/// Sends a request to the server at `url`, which may end before the response is complete. Returns the bytes that arrived.
pub fn exchange_at(
    url: &str,
    request_line: &str,
    headers: &[&str],
    body: &str,
) -> io::Result<Response> {
    let mut stream = open(url, request_line, "HTTP/1.1", headers, body)?;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let head = head.to_ascii_lowercase();
    let body = match head.contains("transfer-encoding: chunked") {
        true => decode_chunks(body),
        false => body.to_owned(),
    };
    Ok(Response {
        status: status.unwrap_or(0),
        head,
        body,
    })
}

/// Decodes a chunked body (RFC 9112 §7.1), as far as it arrived.
fn decode_chunks(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = chunks.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        let Some(chunk) = rest.get(..size).filter(|chunk| !chunk.is_empty()) else {
            break;
        };
        body += chunk;
        chunks = rest[size..].trim_start_matches("\r\n");
    }
    body
}

fn open(
    url: &str,
    request_line: &str,
    version: &str,
    headers: &[&str],
    body: &str,
) -> io::Result<TcpStream> {
    let address = url.trim_start_matches("http://");
    let mut head = format!("{request_line} {version}\r\nConnection: close\r\n");
    if !headers.iter().any(|header| header.starts_with("Host:")) {
        head += &format!("Host: {address}\r\n");
    }
    if !body.is_empty() {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    for header in headers {
        head += &format!("{header}\r\n");
    }
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
    Ok(stream)
}

const V1_HEADERS: [&str; 2] = ["Content-Type: application/json", "A2A-Version: 1.0"];

fn request(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

/// Calls a method of A2A 1.0 and returns the whole response.
pub fn call(server: &Server, method: &str, params: &Value) -> Value {
    call_with(server, method, params, &[]).json()
}

/// Calls a method of A2A 1.0 with more headers and returns the response.
pub fn call_with(server: &Server, method: &str, params: &Value, headers: &[&str]) -> Response {
    let headers = [&V1_HEADERS, headers].concat();
    exchange(server, "POST /a2a", &headers, &request(method, params))
}

/// Calls a method of a server that may end before the response is complete. Returns `None` then.
pub fn try_call(server: &Server, method: &str, params: &Value) -> Option<Value> {
    let response = exchange_at(
        server.url(),
        "POST /a2a",
        &V1_HEADERS,
        &request(method, params),
    );
    serde_json::from_str(&response.ok()?.body).ok()
}

/// Returns the parameters of a message.
pub fn message_params(text: &str, return_immediately: bool) -> Value {
    // A new id, so that the server does not treat it as a retry.
    let id = uuid::Uuid::new_v4().to_string();
    json!({
        "message": {"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]},
        "configuration": {"returnImmediately": return_immediately},
    })
}

/// A stream of events.
pub struct Stream(BufReader<TcpStream>);

impl Stream {
    /// Calls a streaming method of A2A 1.0. `None` if the server has ended.
    pub fn open(server: &Server, method: &str, params: &Value) -> Option<Self> {
        // HTTP/1.0 has no chunks, so a cut body stays readable.
        let body = request(method, params);
        let stream = open(server.url(), "POST /a2a", "HTTP/1.0", &V1_HEADERS, &body).ok()?;
        Some(Self(BufReader::new(stream)))
    }
}

/// Returns the results of the events as they arrive.
impl Iterator for Stream {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).ok().filter(|read| *read > 0)?;
            if let Some(data) = line.strip_prefix("data:") {
                let mut event: Value = serde_json::from_str(data).ok()?;
                return Some(event["result"].take());
            }
        }
    }
}

/// Sends a message without blocking, and returns the response.
pub fn send(server: &Server, text: &str, headers: &[&str]) -> Response {
    call_with(server, "SendMessage", &message_params(text, true), headers)
}

/// Runs the command to its end.
pub fn command(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_remote-agent"))
        .args(args)
        .env_remove("OPENCLAW_GATEWAY_TOKEN")
        .output()
        .unwrap()
}

/// Adds a client to a state directory, and returns the header with its token.
pub fn client(state: &Path, name: &str, options: &[&str]) -> String {
    let state = state.to_str().unwrap();
    let args = [
        &["serve", "clients", "add", name, "--state-dir", state],
        options,
    ]
    .concat();
    let added = command(&args);
    assert!(added.status.success(), "{added:?}");
    let token = String::from_utf8(added.stdout).unwrap();
    format!("Authorization: Bearer {}", token.trim())
}
