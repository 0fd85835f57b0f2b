//! Code that several crates of the workspace share.
//!
//! - [`environment`]: the clock and the id generator, as parameters.
//! - [`log`] and [`audit`]: the log sink and the audit log; [`panics`] turns a panic into an error.
//! - [`config`]: secrets and URLs in settings, and the macro `settings!` for structs of settings; [`validation`] reports faults of a JSON Schema with their places.
//! - [`redact`]: removal of secrets from texts and JSON, and the macro `debug_fields!`; [`confusables`] recognizes look-alike characters, [`visible`]
//!   removes hidden ones.
//! - [`backoff`]: delays between attempts; [`blocking`]: work that must not hold up other tasks.
//! - [`budget`]: what calls have used on a day, and its limits, in a file.
//! - [`keyed_budget`], [`keyed_lru`], [`keyed_semaphore`] and [`run_slots`]: shares of each client, target or queue.
//! - [`json`]: JSON that other programs wrote, with limits; [`lines`]: their lines.
//! - [`text`]: texts for messages, cut and on one line, and the macro `named!` for enums whose variants have names.
//! - [`jws`]: signatures (RFC 7515); [`key_source`]: where a key is; [`files`]: private files and durable renames.
//! - `process`, with the feature of that name: child processes in a process group of their own.
//!
//! # Examples
//!
//! ```
//! use openclaw_remote_agent_base::redact::Secrets;
//!
//! let secrets = Secrets::in_all_forms(["s3cret-token".into()]);
//! assert_eq!(secrets.redact("Bearer s3cret-token"), "Bearer [redacted]");
//! // Also as Base64, as JSON and as a URL write it.
//! assert_eq!(secrets.redact("czNjcmV0LXRva2Vu"), "[redacted]");
//! ```

#![forbid(unsafe_code)]

pub mod audit;
pub mod backoff;
pub mod blocking;
pub mod budget;
pub mod config;
pub mod confusables;
pub mod environment;
pub mod field_order;
pub mod files;
pub mod json;
pub mod jws;
pub mod key_source;
pub mod keyed_budget;
pub mod keyed_lru;
pub mod keyed_semaphore;
pub mod lines;
pub mod log;
pub mod panics;
#[cfg(feature = "process")]
pub mod process;
pub mod redact;
pub mod run_slots;
#[cfg(all(unix, any(test, feature = "test-util")))]
pub mod testing;
pub mod text;
pub mod validation;
pub mod variable_name;
pub mod visible;
