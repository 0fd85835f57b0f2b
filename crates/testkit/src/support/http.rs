//! A bare HTTP/1.1 server on loopback, one thread and one request a connection, and the request that tests send.

use std::{
    io::{BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

/// A request as it came in.
pub struct Request {
    pub method: String,
    pub path: String,
    pub head: String,
    pub body: Vec<u8>,
}

impl Request {
    /// A header's value, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

/// Serves `handler` on a free port until the process ends.
pub fn serve(handler: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let handler = Arc::new(handler);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let handler = Arc::clone(&handler);
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                // Hosts open connections ahead of need and close them unused.
                if let Some(request) = read_request(&stream) {
                    handler(&request, &mut stream);
                }
            });
        }
    });
    address
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let (start, head) = read_head(&mut reader)?;
    let mut words = start.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let body = read_body(&mut reader, &head);
    Some(Request {
        method,
        path,
        head,
        body,
    })
}

/// The first line, and the header lines after it.
pub fn read_head(reader: &mut impl std::io::BufRead) -> Option<(String, String)> {
    let mut start = String::new();
    reader.read_line(&mut start).ok()?;
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && head != "\r\n" {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some((start.trim_end().to_owned(), head))
}

fn read_body(reader: &mut impl std::io::BufRead, head: &str) -> Vec<u8> {
    let mut body = Vec::new();
    if header(head, "transfer-encoding") == Some("chunked") {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size).unwrap();
            let size = u64::from_str_radix(size.trim(), 16).unwrap();
            reader.take(size).read_to_end(&mut body).unwrap();
            reader.read_line(&mut String::new()).unwrap();
            if size == 0 {
                return body;
            }
        }
    }
    let length = header(head, "content-length").map_or(0, |length| length.parse().unwrap());
    reader.take(length).read_to_end(&mut body).unwrap();
    body
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

/// Answers with a whole body.
pub fn answer(stream: &mut TcpStream, status: &str, content_type: &str, body: &str) {
    // A client that has gone needs no answer.
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
}

/// Answers with server-sent events, each a `data` field, and ends the body.
pub fn answer_events(stream: &mut TcpStream, events: &[String]) {
    let body: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    answer(stream, "200 OK", "text/event-stream", &body);
}

/// Answers with server-sent events one by one, each when it is there. `None` ends the body, and so does a client that hangs up.
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
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut reader = BufReader::new(stream);
    let (start, head) = read_head(&mut reader).expect("the server answers");
    let status = start.split(' ').nth(1).unwrap().parse().unwrap();
    (
        status,
        String::from_utf8(read_body(&mut reader, &head)).unwrap(),
    )
}

/// Gets a page and returns the status code and the body.
pub fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: text/html\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut reader = BufReader::new(stream);
    let (start, head) = read_head(&mut reader).expect("the server answers");
    let status = start.split(' ').nth(1).unwrap().parse().unwrap();
    (
        status,
        String::from_utf8(read_body(&mut reader, &head)).unwrap(),
    )
}
