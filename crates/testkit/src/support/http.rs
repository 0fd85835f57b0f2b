//! An HTTP server for blocking handlers, with one request for each connection, and the requests of tests.

use std::{
    future,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{Arc, mpsc},
    thread,
};

use serde_json::Value;
use tokio::{runtime, task};

use crate::http;
pub use crate::http::Request;

/// Serves `handler` on a free port until the process ends.
pub fn serve(handler: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let handler = Arc::new(handler);
    let (started, address) = mpsc::channel();
    thread::spawn(move || {
        let runtime = runtime::Builder::new_current_thread().enable_io().build();
        runtime.unwrap().block_on(async move {
            let server = http::Server::start(move |stream, _| {
                let handler = Arc::clone(&handler);
                async move {
                    let mut connection = http::Connection::new(stream);
                    // Hosts open connections ahead of need and close them unused.
                    let Some(request) = connection.next().await? else {
                        return Ok(());
                    };
                    let mut stream = connection.stream.into_std()?;
                    stream.set_nonblocking(false)?;
                    task::spawn_blocking(move || handler(&request, &mut stream)).await?;
                    Ok(())
                }
            });
            let server = server.await;
            started.send(server.address).unwrap();
            future::pending::<()>().await;
        });
    });
    address.recv().unwrap()
}

/// Serves the agent with this card, in which `{{origin}}` stands for its URL, on a free port. `handler` answers its
/// other requests. Returns the URL.
pub fn serve_agent(
    card: &Value,
    handler: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static,
) -> String {
    let card = card.to_string();
    let address = serve(move |request, stream| {
        if request.method != "GET" {
            return handler(request, stream);
        }
        let origin = format!("http://{}", request.header("host").unwrap());
        let card = card.replace("{{origin}}", &origin);
        answer(stream, "200 OK", "application/json", &card);
    });
    format!("http://{address}")
}

/// Answers with a whole body.
pub fn answer(stream: &mut TcpStream, status: &str, content_type: &str, body: &str) {
    answer_with(stream, status, content_type, "", body);
}

/// Answers with a whole body and further headers, each with the end of its line.
pub fn answer_with(
    stream: &mut TcpStream,
    status: &str,
    content_type: &str,
    headers: &str,
    body: &str,
) {
    let headers = format!("connection: close\r\n{headers}");
    let response = http::response(status, content_type, &headers, body);
    // A disconnected client needs no answer.
    let _ = stream.write_all(response.as_bytes());
}

/// Answers with server-sent events, each a `data` field, and ends the body.
pub fn answer_events(stream: &mut TcpStream, events: &[String]) {
    let body: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    answer(stream, "200 OK", "text/event-stream", &body);
}

/// Answers with server-sent events, each when `more` returns it. `None` or a disconnected client ends the body.
pub fn answer_slowly(stream: &mut TcpStream, mut more: impl FnMut() -> Option<String>) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let mut sent = stream.write_all(head.as_bytes());
    while let (Ok(()), Some(event)) = (&sent, more()) {
        sent = stream.write_all(format!("data: {event}\n\n").as_bytes());
    }
}

/// Returns once the client has closed its side.
pub fn wait_for_close(stream: &mut TcpStream) {
    while matches!(stream.read(&mut [0; 64]), Ok(1..)) {}
}

/// Posts JSON and returns the status code and the body.
pub fn post(address: SocketAddr, path: &str, token: &str, body: &str) -> (u16, String) {
    let headers = format!(
        "authorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    exchange(address, &format!("POST {path}"), &headers, body)
}

/// Gets a page and returns the status code and the body.
pub fn get(address: SocketAddr, path: &str) -> (u16, String) {
    exchange(address, &format!("GET {path}"), "accept: text/html\r\n", "")
}

/// Sends a request in HTTP/1.0, so that the response has no chunks and ends with the connection.
fn exchange(address: SocketAddr, line: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("{line} HTTP/1.0\r\nhost: {address}\r\n{headers}\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").expect("a response");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}
