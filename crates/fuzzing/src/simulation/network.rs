//! The network between the processes of a simulation, with faults.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use common::environment::Clock as _;
use egress::auth;
use egress::retry::{self, RetryContext};
use egress::{BoxFuture, Duplex, Net, NetError, NetFault, Request, Response, Sent, Upgrade};
use futures_util::{StreamExt as _, stream};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::random::{Random, SimulatedEnvironment};
use super::servers::{LOGIN_HOST, Servers};

/// A redirect leads here, and no request may follow it.
pub(super) const TRAP_HOST: &str = "trap.example";

/// The webhooks; the path is the id of the message.
pub(super) const HOOKS_HOST: &str = "hooks.example";

/// A peer replaces this text with the credential that it received.
pub(super) const ECHOED: &str = "CREDENTIAL";

/// The size of the buffer of each direction of a connection.
const BUFFER_BYTES: usize = 64 * 1024;

/// How a message left, by the id of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    /// Certainly not.
    NeverLeft,
    /// The peer refused it before it acted.
    Refused,
    /// It may have arrived.
    Left,
}

/// The state of one call that the network sees.
#[derive(Default)]
pub(super) struct CallState {
    /// Whether the network changed what a peer said, so that the content cannot be predicted.
    pub(super) altered: Mutex<bool>,
}

tokio::task_local! {
    pub(super) static CALL: Arc<CallState>;
}

/// What all processes share.
pub(super) struct World {
    pub(super) servers: Servers,
    /// No faults happen once this is cancelled.
    pub(super) healed: CancellationToken,
    pub(super) faults: Mutex<BTreeMap<&'static str, u64>>,
    pub(super) attempts: Mutex<BTreeMap<String, Vec<Attempt>>>,
    pub(super) violations: Mutex<Vec<String>>,
    pub(super) random: Mutex<Random>,
    /// The fault of the next exchange of a kind, in place of chance.
    pub(super) plan: Mutex<Option<(Exchange, Fault)>>,
    /// How many bytes the last planned exchange carried, without and with a fault.
    pub(super) carried: AtomicUsize,
    /// The ids of messages that did not arrive whole, which no server may act on.
    pub(super) broken: Mutex<Vec<String>>,
    /// The states that each webhook received: whether the task was terminal.
    pub(super) hooks: Mutex<BTreeMap<String, Vec<bool>>>,
}

/// An exchange that carries work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// A message to a server, and the answer.
    Message,
    /// A connection to the gateway.
    Connection,
    /// A notification to a webhook.
    Notification,
}

impl World {
    pub(super) fn violation(&self, text: String) {
        self.violations.lock().unwrap().push(text);
    }

    pub(super) fn count(&self, fault: &'static str) {
        *self.faults.lock().unwrap().entry(fault).or_default() += 1;
    }

    /// Records a notification. None of an earlier state follows the end of a task.
    fn notified(&self, request: &Request) {
        let body = request.body.as_deref().unwrap_or_default();
        let ends: [&[u8]; 4] = [b"complet", b"fail", b"rejected", b"cancel"];
        let is_terminal = |word: &[u8]| {
            let upper = [b"TASK_STATE_", &*word.to_ascii_uppercase()].concat();
            let lower = [b"\"state\":\"", word].concat();
            memmem::find(body, &upper).is_some() || memmem::find(body, &lower).is_some()
        };
        let is_over = ends.into_iter().any(is_terminal);
        let mut hooks = self.hooks.lock().unwrap();
        let states = hooks.entry(request.url.path().to_owned()).or_default();
        if states.last() == Some(&true) && !is_over {
            let text = String::from_utf8_lossy(body);
            self.violation(format!("a notification after the end: {text}"));
        }
        states.push(is_over);
    }

    pub(super) fn fork(&self) -> Random {
        self.random.lock().unwrap().fork()
    }
}

/// A fault of one exchange. Positions are bytes of the body, or events of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Unreachable,
    LostRequest,
    LostAnswer,
    DuplicateRequest,
    Delay,
    Silence,
    Status(u16),
    Cut(usize),
    End(usize),
    Stall(usize),
    Corrupt(usize),
    DuplicateEvent(usize),
    ReorderEvents(usize),
    CutRequest(usize),
    CorruptRequest(usize),
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Unreachable => "unreachable",
            Self::LostRequest => "lost request",
            Self::LostAnswer => "lost answer",
            Self::DuplicateRequest => "duplicated request",
            Self::Delay => "delay",
            Self::Silence => "no answer",
            Self::Status(_) => "status",
            Self::Cut(_) => "cut",
            Self::End(_) => "early end",
            Self::Stall(_) => "stall",
            Self::Corrupt(_) => "corruption",
            Self::DuplicateEvent(_) => "duplicated event",
            Self::ReorderEvents(_) => "reordered events",
            Self::CutRequest(_) => "cut request",
            Self::CorruptRequest(_) => "corrupted request",
        }
    }

    /// Returns whether the peer seems to say something that it did not say.
    fn alters(self) -> bool {
        matches!(
            self,
            Self::Corrupt(_)
                | Self::DuplicateEvent(_)
                | Self::ReorderEvents(_)
                | Self::CorruptRequest(_)
        )
    }

    fn any(random: &mut Random) -> Self {
        // Half of the positions lie in the first bytes, where a plain answer is.
        let limit = random.pick(&[60, 600, 6000]);
        let at = random.index(limit);
        match random.below(16) {
            0 => Self::Unreachable,
            1 => Self::LostRequest,
            2 => Self::LostAnswer,
            3 => Self::DuplicateRequest,
            4 | 5 => Self::Delay,
            6 => Self::Silence,
            7 => Self::Status(random.pick(&[307, 401, 404, 429, 500, 502, 503])),
            8 => Self::Cut(at),
            9 => Self::End(at),
            10 => Self::Stall(at),
            11 => Self::Corrupt(at),
            12 => Self::DuplicateEvent(at % 8),
            13 => Self::ReorderEvents(at % 8),
            14 => Self::CutRequest(at),
            _ => Self::CorruptRequest(at),
        }
    }
}

/// What chance or the plan decides about an exchange.
struct Drawn {
    fault: Fault,
    delay: Duration,
    random: Random,
    is_planned: bool,
}

/// The network of one process.
pub(super) struct SimulatedNet {
    world: Arc<World>,
    /// The name of the process at a gateway.
    name: String,
    /// How many of a hundred exchanges have a fault.
    faults: u64,
    random: Mutex<Random>,
    retries: RetryContext,
    /// Whether a WebSocket carried other bytes than were sent.
    pub(super) garbled: AtomicBool,
}

impl SimulatedNet {
    pub(super) fn new(
        world: Arc<World>,
        name: &str,
        faults: u64,
        env: Arc<SimulatedEnvironment>,
    ) -> Self {
        let random = Mutex::new(world.fork());
        let jitter = Mutex::new(world.fork());
        Self {
            world,
            name: name.to_owned(),
            faults,
            random,
            garbled: AtomicBool::new(false),
            retries: RetryContext {
                wall: Arc::new(move || env.system_time().max(UNIX_EPOCH)),
                random: Arc::new(move || jitter.lock().unwrap().below(1000) as f64 / 1000.0),
            },
        }
    }

    /// Returns the fault of the next exchange, and the chance for its body.
    fn draw(&self, exchange: Option<Exchange>, is_card: bool) -> Drawn {
        let mut random = self.random.lock().unwrap();
        let planned = self
            .world
            .plan
            .lock()
            .unwrap()
            .take_if(|(kind, _)| Some(*kind) == exchange);
        if let Some((_, fault)) = planned {
            self.world.count(fault.name());
            return Drawn {
                fault,
                delay: Duration::from_millis(1),
                random: random.fork(),
                is_planned: true,
            };
        }
        let has_fault = random.percent(self.faults) && !self.world.healed.is_cancelled();
        let fault = Fault::any(&mut random);
        let delay = random.millis(if fault == Fault::Delay && has_fault {
            9000
        } else {
            40
        });
        // What a card says decides about many calls.
        let fault = match has_fault && !(is_card && fault.alters()) {
            true => fault,
            false => Fault::None,
        };
        if fault != Fault::None {
            self.world.count(fault.name());
        }
        Drawn {
            fault,
            delay,
            random: random.fork(),
            is_planned: false,
        }
    }

    async fn carry(&self, request: Request) -> Result<Response, NetError> {
        let world = &self.world;
        let host = request.url.host_str().unwrap_or_default().to_owned();
        if host == TRAP_HOST {
            world.violation("a request followed a redirect".to_owned());
        }
        let shown = format!("{:?}{}", request.headers, request.url);
        let credential = world.servers.credential(&host, &request.headers);
        if let Err(foreign) = credential {
            world.violation(format!("{host} received {foreign} in {shown}"));
        }
        // A notification repeats the message.
        let id = match host == HOOKS_HOST {
            true => None,
            false => message_id(request.body.as_deref().unwrap_or_default()),
        };
        let is_card = request.url.path().contains("/.well-known/");
        let exchange = match host == HOOKS_HOST {
            true => Some(Exchange::Notification),
            false => id.as_ref().map(|_| Exchange::Message),
        };
        let Drawn {
            fault,
            delay,
            mut random,
            is_planned,
        } = self.draw(exchange, is_card);
        if fault.alters() {
            let _ = CALL.try_with(|call| *call.altered.lock().unwrap() = true);
        }
        sleep(delay).await;
        let mut sent = Recorded {
            world,
            id,
            attempt: Attempt::NeverLeft,
        };
        let unsent = |kind| NetError::new(kind, Sent::No, "simulated");
        let cut = NetError::new(NetFault::Cut, Sent::Unknown, "simulated");
        if fault == Fault::Unreachable {
            return Err(unsent(NetFault::Unreachable));
        }
        if let Fault::Status(status) = fault {
            sent.attempt = match status {
                401 | 404 => Attempt::Refused,
                _ => Attempt::Left,
            };
            return Ok(refusal(status));
        }
        sent.attempt = Attempt::Left;
        match fault {
            Fault::LostRequest => return Err(cut),
            Fault::Silence => std::future::pending().await,
            _ => {}
        }
        if host == LOGIN_HOST {
            sent.attempt = Attempt::NeverLeft;
            return Ok(json(world.servers.issue_token()));
        }
        if host == HOOKS_HOST {
            sent.attempt = Attempt::NeverLeft;
            world.notified(&request);
            return match fault {
                Fault::LostAnswer | Fault::Cut(_) => Err(cut),
                _ => Ok(json(String::new())),
            };
        }
        let Some((router, closed)) = world.servers.router(&host) else {
            sent.attempt = Attempt::NeverLeft;
            return Err(unsent(NetFault::Unreachable));
        };
        if fault == Fault::DuplicateRequest {
            let twin = router
                .clone()
                .oneshot(incoming(&request, &host, fault, &mut random));
            tokio::spawn(async move {
                let answer = twin.await.unwrap();
                let _ = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
            });
        }
        let length = request.body.as_ref().map_or(0, Bytes::len);
        if let (Some(id), Fault::CutRequest(at)) = (&sent.id, fault)
            && at < length
        {
            world.broken.lock().unwrap().push(id.clone());
        }
        let answer = router.oneshot(incoming(&request, &host, fault, &mut random));
        let answer = tokio::select! {
            biased;
            answer = answer => answer.unwrap(),
            () = closed.cancelled() => return Err(cut),
        };
        if answer.status() == StatusCode::UNAUTHORIZED {
            sent.attempt = Attempt::Refused;
        }
        let (parts, body) = answer.into_parts();
        if fault == Fault::LostAnswer {
            tokio::spawn(axum::body::to_bytes(body, usize::MAX));
            return Err(cut);
        }
        let (sender, receiver) = mpsc::channel(1);
        let secret = request.headers.get(AUTHORIZATION).cloned();
        let pump = Pump {
            fault,
            random,
            secret: secret.map(|secret| secret.as_bytes().to_vec()),
            sender,
            sent: 0,
        };
        let world = Arc::clone(world);
        tokio::spawn(async move {
            let carried = pump.run(body, closed).await;
            if is_planned {
                world.carried.store(carried.max(length), Ordering::Relaxed);
            }
        });
        let received = stream::unfold(receiver, async |mut receiver| {
            receiver.recv().await.map(|piece| (piece, receiver))
        });
        Ok(Response {
            status: parts.status,
            headers: parts.headers,
            body: Box::pin(received),
        })
    }

    async fn connect(&self, request: Request) -> Result<Upgrade, NetError> {
        let Drawn {
            fault,
            delay,
            mut random,
            is_planned,
        } = self.draw(Some(Exchange::Connection), false);
        sleep(delay).await;
        let unreachable = || NetError::new(NetFault::Unreachable, Sent::No, "simulated");
        match fault {
            Fault::Unreachable | Fault::Status(_) => return Err(unreachable()),
            Fault::Silence => std::future::pending().await,
            _ => {}
        }
        // A connection carries many messages.
        let fault = match fault {
            Fault::LostRequest | Fault::LostAnswer | Fault::CutRequest(_) => {
                Fault::Cut(random.index(60_000))
            }
            Fault::DuplicateRequest | Fault::DuplicateEvent(_) | Fault::ReorderEvents(_) => {
                Fault::Stall(random.index(60_000))
            }
            Fault::CorruptRequest(at) => Fault::Corrupt(at),
            fault => fault,
        };
        if fault.alters() {
            self.garbled.store(true, Ordering::Relaxed);
        }
        let gateway = self.world.servers.gateway(&self.name);
        let (net, closed) = gateway.ok_or_else(unreachable)?;
        let mut upgraded = net.upgrade(request).await?;
        if let Some(far) = upgraded.stream.take() {
            let (ours, near) = tokio::io::duplex(BUFFER_BYTES);
            let world = is_planned.then(|| Arc::clone(&self.world));
            tokio::spawn(wire(near, far, fault, random, closed, world));
            upgraded.stream = Some(Box::new(ours));
        }
        Ok(upgraded)
    }
}

impl Net for SimulatedNet {
    /// As [`egress::HttpClient`]: the credential first, then retries, then the request.
    fn exchange(&self, mut request: Request) -> BoxFuture<'_, Result<Response, NetError>> {
        if let Some(authorization) = request.authorization.take() {
            return Box::pin(auth::exchange(self, authorization, request));
        }
        if request.repeatable {
            return Box::pin(retry::exchange(self, &self.retries, request));
        }
        Box::pin(self.carry(request))
    }

    fn upgrade(&self, request: Request) -> BoxFuture<'_, Result<Upgrade, NetError>> {
        Box::pin(self.connect(request))
    }
}

/// Records how a message left, also if the call is dropped meanwhile.
struct Recorded<'a> {
    world: &'a World,
    id: Option<String>,
    attempt: Attempt,
}

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let mut attempts = self.world.attempts.lock().unwrap();
            attempts.entry(id).or_default().push(self.attempt);
        }
    }
}

/// Returns the id of the message in a request, which the simulation chose.
fn message_id(body: &[u8]) -> Option<String> {
    let start = memmem::find(body, br#""messageId":"call-"#)? + r#""messageId":""#.len();
    let id = body[start..].split(|byte| *byte == b'"').next()?;
    Some(String::from_utf8_lossy(id).into_owned())
}

fn incoming(
    request: &Request,
    host: &str,
    fault: Fault,
    random: &mut Random,
) -> axum::extract::Request {
    let body = request.body.clone().unwrap_or_default();
    let body = match fault {
        Fault::CutRequest(at) if at < body.len() => {
            let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            Body::from_stream(stream::iter([Ok(body.slice(..at)), Err(reset)]))
        }
        Fault::CorruptRequest(at) if at < body.len() => {
            let mut changed = BytesMut::from(&body[..]);
            changed[at] ^= 1 << random.below(8);
            Body::from(changed.freeze())
        }
        _ => Body::from(body),
    };
    let mut incoming = http::Request::new(body);
    *incoming.method_mut() = request.method.clone();
    let path = &request.url[url::Position::BeforePath..url::Position::AfterQuery];
    *incoming.uri_mut() = path.parse().unwrap();
    *incoming.headers_mut() = request.headers.clone();
    let host = HeaderValue::from_str(host).unwrap();
    incoming.headers_mut().insert(HOST, host);
    incoming
}

fn refusal(status: u16) -> Response {
    let mut headers = HeaderMap::new();
    let trap = HeaderValue::from_static("https://trap.example/");
    headers.insert(LOCATION, trap);
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    Response {
        status: StatusCode::from_u16(status).unwrap(),
        headers,
        body: Box::pin(stream::empty()),
    }
}

fn json(body: String) -> Response {
    let json = HeaderValue::from_static("application/json");
    Response {
        status: StatusCode::OK,
        headers: HeaderMap::from_iter([(CONTENT_TYPE, json)]),
        body: Box::pin(stream::iter([Ok(Bytes::from(body))])),
    }
}

/// Carries the body of a response.
struct Pump {
    fault: Fault,
    random: Random,
    secret: Option<Vec<u8>>,
    sender: mpsc::Sender<Result<Bytes, NetError>>,
    sent: usize,
}

impl Pump {
    /// Returns how many bytes the server sent.
    async fn run(mut self, body: Body, closed: CancellationToken) -> usize {
        let sender = self.sender.clone();
        tokio::select! {
            biased;
            // The client dropped the response.
            () = sender.closed() => {}
            () = closed.cancelled() => self.cut().await,
            () = self.pieces(body) => {}
        }
        self.sent
    }

    async fn cut(&self) {
        let cut = NetError::new(NetFault::Cut, Sent::Unknown, "simulated");
        let _ = self.sender.send(Err(cut)).await;
    }

    async fn pieces(&mut self, body: Body) {
        let mut body = body.into_data_stream();
        let mut held = None;
        let mut number = 0;
        while let Some(piece) = body.next().await {
            let Ok(piece) = piece else {
                return self.cut().await;
            };
            let piece = self.echoing(piece);
            let turn = number;
            number += 1;
            match self.fault {
                Fault::DuplicateEvent(at) if at == turn => {
                    if !self.send(piece.clone()).await {
                        return;
                    }
                }
                Fault::ReorderEvents(at) if at == turn => {
                    held = Some(piece);
                    continue;
                }
                _ => {}
            }
            for piece in [Some(piece), held.take()].into_iter().flatten() {
                if !self.send(piece).await {
                    return;
                }
            }
        }
        if let Some(piece) = held {
            self.send(piece).await;
        }
    }

    /// Puts the credential of the request where the peer is asked to repeat it.
    fn echoing(&self, piece: Bytes) -> Bytes {
        let Some(secret) = &self.secret else {
            return piece;
        };
        let Some(at) = memmem::find(&piece, ECHOED.as_bytes()) else {
            return piece;
        };
        let rest = self.echoing(piece.slice(at + ECHOED.len()..));
        [&piece[..at], secret, &rest].concat().into()
    }

    /// Sends a piece up to the fault, in parts. Returns whether more follows.
    async fn send(&mut self, piece: Bytes) -> bool {
        let begins = self.sent;
        self.sent += piece.len();
        let inside = |at: usize| (begins..self.sent).contains(&at).then(|| at - begins);
        match self.fault {
            Fault::Cut(at) => {
                if let Some(at) = inside(at) {
                    self.parts(piece.slice(..at)).await;
                    self.cut().await;
                    return false;
                }
            }
            Fault::End(at) => {
                if let Some(at) = inside(at) {
                    self.parts(piece.slice(..at)).await;
                    return false;
                }
            }
            Fault::Stall(at) => {
                if let Some(at) = inside(at) {
                    self.parts(piece.slice(..at)).await;
                    return std::future::pending().await;
                }
            }
            Fault::Corrupt(at) => {
                if let Some(at) = inside(at) {
                    let mut changed = BytesMut::from(&piece[..]);
                    changed[at] ^= 1 << self.random.below(8);
                    return self.parts(changed.freeze()).await;
                }
            }
            Fault::Delay => sleep(self.random.millis(500)).await,
            _ => {}
        }
        self.parts(piece).await
    }

    async fn parts(&mut self, mut piece: Bytes) -> bool {
        if piece.len() > 1 && self.random.percent(30) {
            let at = self.random.index(piece.len());
            if self.sender.send(Ok(piece.split_to(at))).await.is_err() {
                return false;
            }
            sleep(self.random.millis(20)).await;
        }
        self.sender.send(Ok(piece)).await.is_ok()
    }
}

/// Carries the bytes of a WebSocket in both directions up to the fault.
async fn wire(
    mut near: tokio::io::DuplexStream,
    mut far: Box<dyn Duplex>,
    fault: Fault,
    mut random: Random,
    closed: CancellationToken,
    planned: Option<Arc<World>>,
) {
    let (mut up, mut down) = (vec![0; 4096], vec![0; 4096]);
    let mut carried = 0;
    loop {
        let (upwards, length) = tokio::select! {
            biased;
            () = closed.cancelled() => return,
            length = near.read(&mut up) => (true, length.unwrap_or(0)),
            length = far.read(&mut down) => (false, length.unwrap_or(0)),
        };
        if length == 0 {
            return;
        }
        let piece = if upwards {
            &mut up[..length]
        } else {
            &mut down[..length]
        };
        let inside = |at: usize| {
            (carried..carried + length)
                .contains(&at)
                .then(|| at - carried)
        };
        let (mut kept, mut stalls, mut ends) = (length, false, false);
        match fault {
            Fault::Cut(at) | Fault::End(at) => {
                if let Some(at) = inside(at) {
                    (kept, ends) = (at, true);
                }
            }
            Fault::Stall(at) => {
                if let Some(at) = inside(at) {
                    (kept, stalls) = (at, true);
                }
            }
            Fault::Corrupt(at) => {
                if let Some(at) = inside(at) {
                    piece[at] ^= 1 << random.below(8);
                }
            }
            Fault::Delay => sleep(random.millis(500)).await,
            _ => {}
        }
        carried += length;
        if let Some(world) = &planned {
            world.carried.store(carried, Ordering::Relaxed);
        }
        let piece = &piece[..kept];
        let written = match upwards {
            true => far.write_all(piece).await,
            false => near.write_all(piece).await,
        };
        if written.is_err() || ends {
            return;
        }
        if stalls {
            // Both ends stay open and silent.
            closed.cancelled().await;
            return;
        }
        sleep(random.millis(3)).await;
    }
}
