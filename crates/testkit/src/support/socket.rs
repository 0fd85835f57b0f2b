//! A client of OpenClaw's gateway WebSocket that runs, watches and aborts agents.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

use super::journal::Journal;

pub struct Socket {
    stream: Arc<Mutex<TcpStream>>,
    /// Every received frame.
    pub frames: Journal<Value>,
    next_id: AtomicU64,
}

impl Socket {
    /// Connects as an operator with all permissions.
    pub fn connect(gateway: SocketAddr, token: &str) -> Self {
        let mut stream = TcpStream::connect(gateway).unwrap();
        write!(
            stream,
            "GET / HTTP/1.1\r\nhost: {gateway}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
             sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n"
        )
        .unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = reader.read_line(&mut head).unwrap();
            assert!(read > 0, "the gateway answers: {head}");
        }
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");

        let frames = Journal::new();
        let stream = Arc::new(Mutex::new(stream));
        let (journal, answers) = (frames.clone(), Arc::clone(&stream));
        thread::spawn(move || {
            while let Some((kind, body)) = read_frame(&mut reader) {
                match kind {
                    TEXT => {
                        journal.push(serde_json::from_slice(&body).expect("the gateway sends JSON"))
                    }
                    // The gateway closes connections without pongs.
                    PING => write_frame(&answers, PONG, &body),
                    _ => {}
                }
            }
            journal.push(json!({"type": "closed"}));
        });
        let socket = Self {
            stream,
            frames,
            next_id: AtomicU64::new(1),
        };
        socket.frames.wait("the gateway's challenge", |frame| {
            frame["event"] == "connect.challenge"
        });
        socket.request(
            "connect",
            json!({
                "minProtocol": 4, "maxProtocol": 4, "role": "operator", "scopes": ["operator.read", "operator.write", "operator.admin", "operator.approvals"],
                "client": {"id": "gateway-client", "version": "0.1.0", "platform": "linux", "mode": "backend"},
                "caps": ["tool-events", "plugin-approvals"], "auth": {"token": token}
            }),
        );
        socket
    }

    /// Sends a request and returns the first answer.
    pub fn request(&self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.response(method, &id, |_| true)
    }

    /// Sends a request that the gateway may refuse.
    ///
    /// # Errors
    /// An error of the gateway: `{code, message}`.
    pub fn attempt(&self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.send(method, params);
        let frame = self.answer(method, &id, |_| true);
        match frame["ok"] == true {
            true => Ok(frame["payload"].clone()),
            false => Err(frame["error"].clone()),
        }
    }

    /// Runs one turn of an agent and returns its outcome.
    pub fn run(&self, session: &str, message: &str) -> Value {
        let run = self.start(session, message);
        self.end_of(&run)
    }

    /// Starts one turn of an agent and returns its run id, which is also the id of the request.
    pub fn start(&self, session: &str, message: &str) -> String {
        let id = format!("run-{}", self.next_id.fetch_add(1, Ordering::Relaxed));
        self.write(&id, "agent", json!({"agentId": "main", "sessionKey": session, "message": message, "idempotencyKey": id}));
        id
    }

    /// Runs one turn of an agent in the trace of a `traceparent`, and returns its outcome.
    pub fn run_in_trace(&self, session: &str, message: &str, traceparent: &str) -> Value {
        let id = format!("run-{}", self.next_id.fetch_add(1, Ordering::Relaxed));
        let params = json!({"agentId": "main", "sessionKey": session, "message": message, "idempotencyKey": id});
        let frame = json!({"type": "req", "id": id, "method": "agent", "params": params, "traceparent": traceparent});
        write_frame(&self.stream, TEXT, frame.to_string().as_bytes());
        self.end_of(&id)
    }

    /// Waits for a run to end.
    pub fn end_of(&self, run: &str) -> Value {
        self.response("agent", run, |payload| payload["status"] != "accepted")
    }

    /// Returns the tool results, partial ones included, that the gateway reported during a run.
    pub fn tool_events(&self, run: &str, phase: &str) -> Vec<Value> {
        let events = self.frames.all(|frame| {
            frame["event"] == "agent"
                && frame["payload"]["runId"] == run
                && frame["payload"]["stream"] == "tool"
                && frame["payload"]["data"]["phase"] == phase
        });
        events
            .into_iter()
            .map(|frame| frame["payload"]["data"].clone())
            .collect()
    }

    fn send(&self, method: &str, params: Value) -> String {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed).to_string();
        self.write(&id, method, params);
        id
    }

    fn response(&self, method: &str, id: &str, predicate: impl Fn(&Value) -> bool) -> Value {
        let frame = self.answer(method, id, predicate);
        assert_eq!(frame["ok"], true, "`{method}` was refused: {frame}");
        frame["payload"].clone()
    }

    fn answer(&self, method: &str, id: &str, predicate: impl Fn(&Value) -> bool) -> Value {
        self.frames
            .wait(&format!("the answer to `{method}`"), |frame| {
                frame["type"] == "closed"
                    || frame["type"] == "res"
                        && frame["id"] == id
                        && (frame["ok"] != true || predicate(&frame["payload"]))
            })
    }

    fn write(&self, id: &str, method: &str, params: Value) {
        let text = json!({"type": "req", "id": id, "method": method, "params": params}).to_string();
        write_frame(&self.stream, TEXT, text.as_bytes());
    }
}

const TEXT: u8 = 1;
const PING: u8 = 9;
const PONG: u8 = 10;

fn write_frame(stream: &Mutex<TcpStream>, kind: u8, body: &[u8]) {
    // Control frames must have the short form of the length.
    let mut frame = vec![0x80 | kind];
    match u8::try_from(body.len()) {
        Ok(length @ ..126) => frame.push(0x80 | length),
        _ => {
            frame.push(0x80 | 126);
            frame.extend(
                u16::try_from(body.len())
                    .expect("what tests send is short")
                    .to_be_bytes(),
            );
        }
    }
    // Clients must mask frames. A mask of zeros is valid.
    frame.extend([0; 4]);
    frame.extend(body);
    let sent = stream.lock().unwrap().write_all(&frame);
    sent.expect("the gateway is there");
}

/// Returns the next frame's kind and body, or `None` at the end. The gateway sends each message in one frame.
fn read_frame(reader: &mut impl std::io::Read) -> Option<(u8, Vec<u8>)> {
    let [kind, length] = read_array(reader)?;
    let length = match length {
        126 => u64::from(u16::from_be_bytes(read_array(reader)?)),
        127 => u64::from_be_bytes(read_array(reader)?),
        short => u64::from(short),
    };
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).ok()?;
    Some((kind & 0x0f, body))
}

fn read_array<const N: usize>(reader: &mut impl std::io::Read) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes).ok()?;
    Some(bytes)
}
