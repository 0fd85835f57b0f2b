//! A client of OpenClaw's gateway WebSocket: just enough to run an agent, watch it and abort it.

use std::{
    io::{BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

use crate::{http, journal::Journal};

pub struct Socket {
    stream: Mutex<TcpStream>,
    /// Every frame that came in.
    pub frames: Journal<Value>,
    next_id: AtomicU64,
}

impl Socket {
    /// Connects as an operator who may do everything.
    pub fn connect(gateway: SocketAddr, token: &str) -> Self {
        let mut stream = TcpStream::connect(gateway).unwrap();
        write!(
            stream,
            "GET / HTTP/1.1\r\nhost: {gateway}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
             sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n"
        )
        .unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (start, _) = http::read_head(&mut reader).expect("the gateway answers");
        assert!(start.starts_with("HTTP/1.1 101"), "{start}");

        let frames = Journal::new();
        let journal = frames.clone();
        thread::spawn(move || {
            while let Some(message) = read_message(&mut reader) {
                journal.push(message);
            }
        });
        let socket = Self { stream: Mutex::new(stream), frames, next_id: AtomicU64::new(1) };
        socket.frames.wait("the gateway's challenge", |frame| frame["event"] == "connect.challenge");
        socket.request(
            "connect",
            json!({
                "minProtocol": 4, "maxProtocol": 4, "role": "operator", "scopes": ["operator.read", "operator.write", "operator.admin"],
                "client": {"id": "gateway-client", "version": "0.1.0", "platform": "linux", "mode": "backend"},
                "caps": ["tool-events"], "auth": {"token": token}
            }),
        );
        socket
    }

    /// Sends a request and returns what it is answered with first.
    pub fn request(&self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.response(method, &id, |_| true)
    }

    /// Runs one turn of an agent and returns how it ended.
    pub fn run(&self, session: &str, message: &str) -> Value {
        let run = self.start(session, message);
        self.end_of(&run)
    }

    /// Starts one turn of an agent and returns its run id, which is the request's id too.
    pub fn start(&self, session: &str, message: &str) -> String {
        let id = format!("run-{}", self.next_id.fetch_add(1, Ordering::Relaxed));
        self.write(&id, "agent", json!({"agentId": "main", "sessionKey": session, "message": message, "idempotencyKey": id}));
        id
    }

    /// Waits for a run to end.
    pub fn end_of(&self, run: &str) -> Value {
        self.response("agent", run, |payload| payload["status"] != "accepted")
    }

    /// The results of tools, or what they said so far, that the gateway told of during a run.
    pub fn tool_events(&self, run: &str, phase: &str) -> Vec<Value> {
        let events = self.frames.all(|frame| {
            frame["event"] == "agent"
                && frame["payload"]["runId"] == run
                && frame["payload"]["stream"] == "tool"
                && frame["payload"]["data"]["phase"] == phase
        });
        events.into_iter().map(|frame| frame["payload"]["data"].clone()).collect()
    }

    fn send(&self, method: &str, params: Value) -> String {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed).to_string();
        self.write(&id, method, params);
        id
    }

    fn response(&self, method: &str, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let frame = self.frames.wait(&format!("the answer to `{method}`"), |frame| {
            frame["type"] == "res" && frame["id"] == id && (frame["ok"] != true || wanted(&frame["payload"]))
        });
        assert_eq!(frame["ok"], true, "`{method}` was refused: {frame}");
        frame["payload"].clone()
    }

    fn write(&self, id: &str, method: &str, params: Value) {
        let text = json!({"type": "req", "id": id, "method": method, "params": params}).to_string();
        // Clients have to mask what they send; a mask of zeros is one.
        let length = u16::try_from(text.len()).expect("requests of tests are short").to_be_bytes();
        let mut frame = vec![0x81, 0x80 | 126, length[0], length[1], 0, 0, 0, 0];
        frame.extend(text.as_bytes());
        self.stream.lock().unwrap().write_all(&frame).unwrap();
    }
}

/// The next text message, or `None` at the end. The gateway sends each in one frame.
fn read_message(reader: &mut impl std::io::Read) -> Option<Value> {
    loop {
        let [kind, length] = read_array(reader)?;
        let length = match length {
            126 => u64::from(u16::from_be_bytes(read_array(reader)?)),
            127 => u64::from_be_bytes(read_array(reader)?),
            short => u64::from(short),
        };
        let mut body = Vec::new();
        reader.take(length).read_to_end(&mut body).ok()?;
        match kind & 0x0f {
            1 => return serde_json::from_slice(&body).ok(),
            8 => return None,
            _ => {}
        }
    }
}

fn read_array<const N: usize>(reader: &mut impl std::io::Read) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes).ok()?;
    Some(bytes)
}
