//! The network between the processes of a simulation, with faults.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use a2a::ErrorReason;
use axum::body::{Body, HttpBody as _};
use base::environment::Clock as _;
use bytes::{Bytes, BytesMut};
use egress::auth;
use egress::retry::{self, RetryContext};
use egress::{BoxFuture, HttpClient, NetError, NetFault, Request, Response, Sent, Upgrade};
use futures_util::stream;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use memchr::memmem;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::body::{Pump, wire};
use super::fault::Fault;
use super::openclaw::OPENCLAW_PORT;
use super::random::{Random, SimulatedEnvironment};
use super::servers::LOGIN_HOST;
use super::webhooks::{HOOKS_HOST, Late};
use super::world::{Attempt, CALL, Exchange, Recorded, TRAP_HOST, World};

/// The buffer size of each direction of a connection.
const BUFFER_BYTES: usize = 64 * 1024;

/// The delay of a request that arrives after its client has given up.
pub(super) const LATE: Duration = Duration::from_secs(15);

/// The fault of an exchange, random or planned.
struct Drawn {
    fault: Fault,
    delay: Duration,
    random: Random,
    is_planned: bool,
}

/// The network interface of one process.
pub(super) struct SimulatedNet {
    world: Arc<World>,
    /// The name of the process at the gateway.
    name: String,
    /// The percentage of exchanges with a fault.
    faults: u64,
    random: Mutex<Random>,
    retries: RetryContext,
    /// Whether a fault changed bytes of a WebSocket.
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

    /// Returns the fault of the next exchange, and the random source for its body.
    fn draw(&self, exchange: Option<Exchange>, is_card: bool) -> Drawn {
        let mut random = self.random.lock().unwrap();
        let planned = self
            .world
            .plan
            .lock()
            .unwrap()
            .take_if(|(kind, others, _)| {
                let is_next = Some(*kind) == exchange && *others == 0;
                *others -= usize::from(Some(*kind) == exchange && !is_next);
                is_next
            });
        if let Some((_, _, fault)) = planned {
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
        // A changed card would affect many calls, so it gets no fault that changes content.
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
        // A notification contains the id of the message.
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
            attempt: Attempt::NotSent,
        };
        let unsent = |kind| NetError::new(kind, Sent::No, "simulated");
        let cut = NetError::new(NetFault::Cut, Sent::Unknown, "simulated");
        if fault == Fault::Unreachable {
            return Err(unsent(NetFault::Unreachable));
        }
        if let Fault::Status(status) = fault {
            sent.attempt = match status {
                401 | 404 => Attempt::Refused,
                _ => Attempt::Sent,
            };
            return Ok(error_response(status));
        }
        sent.attempt = Attempt::Sent;
        match fault {
            Fault::LostRequest => return Err(cut),
            Fault::Silence => std::future::pending().await,
            _ => {}
        }
        if host == LOGIN_HOST {
            sent.attempt = Attempt::NotSent;
            return Ok(json(world.servers.issue_token()));
        }
        let found = match host == HOOKS_HOST {
            true => Some((world.webhooks.router(), CancellationToken::new())),
            false => world.servers.router(&host),
        };
        let Some((router, closed)) = found else {
            sent.attempt = Attempt::NotSent;
            return Err(unsent(NetFault::Unreachable));
        };
        if fault == Fault::DuplicateRequest {
            world.duplicated.lock().unwrap().extend(sent.id.clone());
            let twin = router
                .clone()
                .oneshot(incoming(&request, &host, fault, &mut random));
            tokio::spawn(async move {
                let answer = twin.await.unwrap();
                let _ = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
            });
        }
        if fault == Fault::LateRequest {
            let mut late = incoming(&request, &host, fault, &mut random);
            late.extensions_mut().insert(Late);
            tokio::spawn(async move {
                sleep(LATE).await;
                let answer = router.oneshot(late).await.unwrap();
                let _ = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
            });
            return std::future::pending().await;
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
        if exchange == Some(Exchange::Notification)
            && matches!(fault, Fault::CutRequest(at) if at < length)
        {
            return Err(cut);
        }
        let (parts, mut body) = answer.into_parts();
        // A stream has no exact length. It starts after the server has accepted the message.
        if sent.id.is_some() && body.size_hint().exact().is_some() {
            let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            if parts.status == StatusCode::UNAUTHORIZED || refuses_operation(&bytes) {
                sent.attempt = Attempt::Refused;
            }
            body = bytes.into();
        }
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
        let is_openclaw = request.url.port() == Some(OPENCLAW_PORT);
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
            Fault::DuplicateEvent(_) | Fault::ReorderEvents(_) if is_openclaw => fault,
            Fault::LateRequest
            | Fault::DuplicateRequest
            | Fault::DuplicateEvent(_)
            | Fault::ReorderEvents(_) => Fault::Stall(random.index(60_000)),
            Fault::CorruptRequest(at) => Fault::Corrupt(at),
            fault => fault,
        };
        if fault.alters() {
            self.garbled.store(true, Ordering::Relaxed);
        }
        let servers = &self.world.servers;
        let (mut upgraded, closed) = if is_openclaw {
            let upgraded = servers.openclaw.upgrade(request, fault, &servers.runs);
            (upgraded.await?, CancellationToken::new())
        } else {
            let gateway = servers.gateway(&self.name);
            let (net, closed) = gateway.ok_or_else(unreachable)?;
            (net.upgrade(request).await?, closed)
        };
        if let Some(far) = upgraded.stream.take() {
            let (client_end, server_end) = tokio::io::duplex(BUFFER_BYTES);
            let world = is_planned.then(|| Arc::clone(&self.world));
            tokio::spawn(wire(server_end, far, fault, random, closed, world));
            upgraded.stream = Some(Box::new(client_end));
        }
        Ok(upgraded)
    }
}

impl HttpClient for SimulatedNet {
    /// Behaves like [`egress::ReqwestClient`]: obtains the credential, then sends the request with retries.
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

/// Returns the message id in a request. The simulation chose it.
fn message_id(body: &[u8]) -> Option<String> {
    let start = memmem::find(body, br#""messageId":"call-"#)? + r#""messageId":""#.len();
    let id = body[start..].split(|byte| *byte == b'"').next()?;
    Some(String::from_utf8_lossy(id).into_owned())
}

/// Returns whether a server does not know the operation, because the network changed the operation's name.
fn refuses_operation(answer: &[u8]) -> bool {
    let code = format!("\"code\":{}", ErrorReason::MethodNotFound.code());
    memmem::find(answer, code.as_bytes()).is_some()
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

fn error_response(status: u16) -> Response {
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
