//! The connection for commands. It reconnects after an error.

use std::time::Duration;

use base::backoff::Backoff;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind,
    Value,
};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::error::{self, is_temporary, is_unavailable};
use super::scripts::Call;
use crate::store::StoreError;

/// How long to wait until a connection is open.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait for a response.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the result of a failed connection attempt applies to further calls.
const RECONNECT_DELAY: Duration = Duration::from_millis(50);
/// The delays between calls while Redis is unavailable.
const RETRY_DELAY: Backoff = Backoff::new(RECONNECT_DELAY, Duration::from_secs(1));

/// A connection to Redis that reconnects.
pub(super) struct RedisConnection {
    client: Client,
    config: AsyncConnectionConfig,
    display_address: String,
    slot: Mutex<Slot>,
}

/// The number of a connection, and an answer that it received.
type Answer = (u64, Value);

#[derive(Default)]
struct Slot {
    connection: Option<MultiplexedConnection>,
    /// The number of this connection, so that an error of an earlier connection does not close it.
    number: u64,
    last_failure: Option<(Instant, RedisError)>,
}

impl RedisConnection {
    /// Creates a connection that opens on first use. `display_address` is for messages.
    pub(super) fn new(client: Client, display_address: String) -> Self {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_pipeline_buffer_size(1024);
        Self {
            client,
            config,
            display_address,
            slot: Mutex::default(),
        }
    }

    /// Calls a script, and calls it once more if the connection broke. All scripts are idempotent.
    pub(super) async fn call<T: FromRedisValue>(&self, call: &Call<'_>) -> Result<T, StoreError> {
        let answer = match self.call_once(call).await {
            Err(error) if is_retryable(&error) => self.call_once(call).await,
            done => done,
        };
        self.decode(answer).await
    }

    /// Calls a script, and retries for at most `timeout` while Redis is unavailable.
    pub(super) async fn call_until<T: FromRedisValue>(
        &self,
        call: &Call<'_>,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        let end = Instant::now() + timeout;
        let mut retries = 0;
        loop {
            let pause = RETRY_DELAY.delay(retries);
            match self.call_once(call).await {
                Err(error) if is_temporary(&error) && Instant::now() + pause < end => {
                    tokio::time::sleep(pause).await;
                    retries += 1;
                }
                done => return self.decode(done).await,
            }
        }
    }

    /// Sends a command, and sends it once more if the connection broke.
    pub(super) async fn query<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T, StoreError> {
        let answer = match self.send(cmd).await {
            Err(error) if is_retryable(&error) => self.send(cmd).await,
            done => done,
        };
        self.decode(answer).await
    }

    async fn send(&self, cmd: &Cmd) -> Result<Answer, RedisError> {
        let (number, mut connection) = self.connection().await?;
        let answer = cmd.query_async(&mut connection).await;
        self.discard_broken(number, &answer).await;
        Ok((number, answer?))
    }

    /// Decodes an answer. One of another type may belong to another request, so its connection is not used again.
    async fn decode<T: FromRedisValue>(
        &self,
        answer: Result<Answer, RedisError>,
    ) -> Result<T, StoreError> {
        let (number, value) = answer.map_err(|error| self.store_error(&error))?;
        match redis::from_redis_value(value) {
            Ok(decoded) => Ok(decoded),
            // The error contains the value.
            Err(_) => {
                self.discard(number).await;
                Err(self.unexpected_answer())
            }
        }
    }

    /// Returns the error of an answer that no script gives.
    pub(super) fn unexpected_answer(&self) -> StoreError {
        StoreError::Failed(format!(
            "Redis at {} gave an unexpected answer; check that the address names a Redis and not another server, and that \
             no other program writes under the prefix",
            self.display_address
        ))
    }

    /// Converts an error of Redis to an error of the store.
    pub(super) fn store_error(&self, error: &RedisError) -> StoreError {
        error::to_store_error(error, &self.display_address)
    }

    pub(super) fn display_address(&self) -> &str {
        &self.display_address
    }

    async fn call_once(&self, call: &Call<'_>) -> Result<Answer, RedisError> {
        let (number, mut connection) = self.connection().await?;
        let mut answer = call.cmd.query_async(&mut connection).await;
        if matches!(&answer, Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
        {
            answer = match call.lua.script.load_async(&mut connection).await {
                Ok(_) => call.cmd.query_async(&mut connection).await,
                Err(error) => Err(error),
            };
        }
        self.discard_broken(number, &answer).await;
        Ok((number, answer?))
    }

    async fn connection(&self) -> Result<(u64, MultiplexedConnection), RedisError> {
        // Callers that wait for the lock share the result of one connection attempt.
        let mut slot = self.slot.lock().await;
        if let Some(connection) = &slot.connection {
            return Ok((slot.number, connection.clone()));
        }
        if let Some((at, error)) = &slot.last_failure
            && at.elapsed() < RECONNECT_DELAY
        {
            return Err(error.clone());
        }
        let connected = self
            .client
            .get_multiplexed_async_connection_with_config(&self.config)
            .await;
        match connected {
            Ok(connection) => {
                slot.number += 1;
                slot.connection = Some(connection.clone());
                slot.last_failure = None;
                Ok((slot.number, connection))
            }
            Err(error) => {
                slot.last_failure = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Drops the connection if the error shows that it is broken.
    async fn discard_broken<T>(&self, number: u64, answer: &Result<T, RedisError>) {
        if matches!(answer, Err(error) if is_unavailable(error)) {
            self.discard(number).await;
        }
    }

    async fn discard(&self, number: u64) {
        let mut slot = self.slot.lock().await;
        if slot.number == number {
            slot.connection = None;
        }
    }
}

/// Returns whether a new connection may succeed at once. A timeout does not count, because it has used up the caller's
/// time.
fn is_retryable(error: &RedisError) -> bool {
    is_unavailable(error) && !error.is_timeout()
}
