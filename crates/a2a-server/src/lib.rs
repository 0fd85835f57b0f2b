//! An A2A server in front of an [`Executor`](executor::Executor). It supports A2A 1.0 and 0.3 on one port, over
//! JSON-RPC and HTTP+JSON.
//!
//! A [`Service`](service::Service) runs the tasks. [`http::router`] serves the protocol, [`http::app::router`] adds
//! access control and the operator's page, and the crate `http_server` accepts the connections.
//!
//! # Modules
//!
//! Each module uses only the ones below it.
//!
//! - [`http`]: JSON-RPC and HTTP+JSON of both versions, event streams, agent cards.
//! - [`service`]: the operations of the protocol, the work on tasks, and the client of a request
//!   ([`CallContext`](service::CallContext)).
//! - [`push`]: notifications to webhooks.
//! - [`executor`]: the interface to the agents, and a scripted implementation.
//! - [`settings`], [`metrics`]: limits, and metrics for Prometheus.
//! - [`store`]: task stores in memory, in SQLite, and in a Redis that several servers share.
//! - [`task_record`]: a stored task.
//!
//! All modules use the official types of A2A 1.0 ([`a2a::v1_0`]). `a2a::parse_request` reads
//! requests of 0.3 into them, and `a2a::v0_3` writes them as 0.3.
//!
//! # Examples
//!
//! A service with a scripted executor answers a message:
//!
//! ```
//! use std::sync::Arc;
//!
//! use a2a::v1_0::{Message, Part, Role, SendMessageRequest, SendMessageResponse, TaskState};
//! use a2a::Version;
//! use a2a_server::executor::scripted::ScriptedExecutor;
//! use a2a_server::push::{PushError, PushSender};
//! use a2a_server::service::{
//!     ANONYMOUS_CLIENT, CallContext, Service, ServiceComponents, SessionMapper, Settings,
//! };
//! use a2a_server::store::memory::MemoryStore;
//! use futures_util::future::BoxFuture;
//!
//! /// Accepts no webhooks.
//! struct NoPush;
//!
//! impl PushSender for NoPush {
//!     fn accepts(&self, _url: &url::Url) -> Result<(), String> {
//!         Err("is not supported".into())
//!     }
//!
//!     fn post(
//!         &self,
//!         _url: url::Url,
//!         _headers: http::HeaderMap,
//!         _body: bytes::Bytes,
//!     ) -> BoxFuture<'_, Result<http::Response<()>, PushError>> {
//!         unreachable!("no webhook is accepted")
//!     }
//! }
//!
//! /// Uses context ids as session ids.
//! struct OneToOne;
//!
//! impl SessionMapper for OneToOne {
//!     fn session_id(&self, _client: Option<&str>, context_id: &str) -> String {
//!         context_id.to_owned()
//!     }
//!
//!     fn context_id(&self, session_id: &str) -> Option<String> {
//!         Some(session_id.to_owned())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), a2a::A2aError> {
//! let service = Service::start(ServiceComponents {
//!     settings: Settings::default(),
//!     executor: Arc::new(ScriptedExecutor::default()),
//!     store: Arc::new(MemoryStore::new()),
//!     sender: Arc::new(NoPush),
//!     sessions: Arc::new(OneToOne),
//!     env: Arc::new(base::environment::SystemEnvironment),
//!     clients: None,
//! })
//! .await?;
//!
//! let caller = CallContext {
//!     client: ANONYMOUS_CLIENT.into(),
//!     authenticated: false,
//!     version: Version::V1_0,
//!     agent: None,
//! };
//! let request = SendMessageRequest {
//!     message: Message::new(Role::User, vec![Part::text("echo hello")]),
//!     configuration: None,
//!     metadata: None,
//!     tenant: None,
//! };
//! let SendMessageResponse::Task(task) = service.send(&caller, request.into()).await? else {
//!     panic!("the executor answers `echo` with a task");
//! };
//! assert_eq!(task.status.state, TaskState::Completed);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod executor;
pub mod http;
pub mod metrics;
pub mod push;
pub mod service;
pub mod settings;
pub mod store;
pub mod task_record;
