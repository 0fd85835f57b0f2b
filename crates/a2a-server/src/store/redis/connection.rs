//! The connection for commands. It reconnects after an error.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind,
};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::error::{self, is_unavailable};
use super::scripts::Call;
use crate::store::StoreError;

/// How long to wait until a connection is open.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait for a response.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the result of a failed connection attempt applies to further calls.
const HEALTH_CHECK_PAUSE: Duration = Duration::from_millis(50);

/// A connection to Redis that reconnects.
pub(super) struct RedisConnection {
    client: Client,
    config: AsyncConnectionConfig,
    shown: String,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    connection: Option<MultiplexedConnection>,
    /// The number of this connection, so that an error of an earlier connection does not close it.
    number: u64,
    failed: Option<(Instant, RedisError)>,
}

impl RedisConnection {
    /// Creates a connection that opens on first use. `shown` is the address for messages.
    pub(super) fn new(client: Client, shown: String) -> Self {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_pipeline_buffer_size(1024);
        Self {
            client,
            config,
            shown,
            slot: Mutex::default(),
        }
    }

    /// Calls a script, and calls it once more if the connection broke. All scripts are idempotent.
    pub(super) async fn call<T: FromRedisValue>(&self, call: &Call<'_>) -> Result<T, StoreError> {
        match self.once(call).await {
            Err(why) if is_retryable(&why) => self.once(call).await,
            done => done,
        }
        .map_err(|why| self.failed(&why))
    }

    /// Calls a script, and retries for at most `timeout` while Redis is unavailable.
    pub(super) async fn call_until<T: FromRedisValue>(
        &self,
        call: &Call<'_>,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        let end = Instant::now() + timeout;
        let mut pause = HEALTH_CHECK_PAUSE;
        loop {
            match self.once(call).await {
                Err(why) if is_unavailable(&why) && Instant::now() + pause < end => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(1));
                }
                done => return done.map_err(|why| self.failed(&why)),
            }
        }
    }

    /// Sends a command, and sends it once more if the connection broke.
    pub(super) async fn query<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T, StoreError> {
        match self.send(cmd).await {
            Err(why) if is_retryable(&why) => self.send(cmd).await,
            done => done,
        }
        .map_err(|why| self.failed(&why))
    }

    async fn send<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T, RedisError> {
        let (number, mut connection) = self.connection().await?;
        let answer = cmd.query_async(&mut connection).await;
        self.discard_broken(number, &answer).await;
        answer
    }

    /// Converts an error of Redis to an error of the store.
    pub(super) fn failed(&self, why: &RedisError) -> StoreError {
        error::server_message(why, &self.shown)
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    async fn once<T: FromRedisValue>(&self, call: &Call<'_>) -> Result<T, RedisError> {
        let (number, mut connection) = self.connection().await?;
        let mut answer = call.cmd.query_async(&mut connection).await;
        if matches!(&answer, Err(why) if why.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
        {
            answer = match call.lua.script.load_async(&mut connection).await {
                Ok(_) => call.cmd.query_async(&mut connection).await,
                Err(why) => Err(why),
            };
        }
        self.discard_broken(number, &answer).await;
        answer
    }

    async fn connection(&self) -> Result<(u64, MultiplexedConnection), RedisError> {
        // Callers that wait for the lock share the result of one connection attempt.
        let mut slot = self.slot.lock().await;
        if let Some(connection) = &slot.connection {
            return Ok((slot.number, connection.clone()));
        }
        if let Some((at, why)) = &slot.failed
            && at.elapsed() < HEALTH_CHECK_PAUSE
        {
            return Err(why.clone());
        }
        let made = self
            .client
            .get_multiplexed_async_connection_with_config(&self.config)
            .await;
        match made {
            Ok(connection) => {
                slot.number += 1;
                slot.connection = Some(connection.clone());
                slot.failed = None;
                Ok((slot.number, connection))
            }
            Err(why) => {
                slot.failed = Some((Instant::now(), why.clone()));
                Err(why)
            }
        }
    }

    /// Drops the connection if the error shows that it is broken.
    async fn discard_broken<T>(&self, number: u64, answer: &Result<T, RedisError>) {
        if matches!(answer, Err(why) if is_unavailable(why)) {
            let mut slot = self.slot.lock().await;
            if slot.number == number {
                slot.connection = None;
            }
        }
    }
}

/// Returns whether a new connection may succeed at once. A timeout does not count, because it has used up the caller's
/// time.
fn is_retryable(why: &RedisError) -> bool {
    is_unavailable(why) && !why.is_timeout()
}
