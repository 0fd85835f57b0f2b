//! What an operator does with a target: search, sign-in, sign-out and pins.

use std::sync::Arc;

use egress::sign_in::SignedOut;
use napi::{Env, Result, bindgen_prelude::Object};
use napi_derive::napi;
use serde_json::json;

use super::{AskPerson, CancelToken, HostPerson, RemoteAgent};
use crate::pin::{PinReview, PinReviewError};

#[napi]
impl RemoteAgent {
    /// Signs a person in to the target `alias`, or to the only one that needs a sign-in. `ask_person` shows the link and the code,
    /// as for [`execute`](Self::execute), and reads the address at which a browser ended; it is called with `{id, withdrawn: true}`
    /// when the sign-in is over. The promise resolves with JSON, `{"alias", "scopes"}` or `{"error", "isUsage"}`.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    #[napi(catch_unwind, ts_return_type = "Promise<string>")]
    pub fn sign_in<'env>(
        &self,
        env: &'env Env,
        alias: Option<String>,
        user: Option<String>,
        cancel: &CancelToken,
        ask_person: AskPerson<'_>,
    ) -> Result<Object<'env>> {
        let person = HostPerson::new(&ask_person)?;
        let (cancel, closing) = (cancel.0.clone(), self.plugin.closing());
        let opened = self.plugin.sign_in(alias.as_deref(), user.as_deref());
        self.resolve_with(env, async move {
            let sign_in = opened.map_err(|error| (error, true))?;
            let signed_in = cancel.run_until_cancelled(sign_in.ask(&person));
            let token = closing
                .run_until_cancelled(signed_in)
                .await
                .flatten()
                .unwrap_or_else(|| Err("the sign-in was cancelled".to_owned()))
                .map_err(|error| (error, false))?;
            Ok(json!({"alias": sign_in.alias(), "scopes": token.scope}))
        })
    }

    /// Removes the stored sign-in of a target. The promise resolves with JSON, `{"alias", "outcome"}` or `{"error", "isUsage"}`, where
    /// the outcome is `revoked`, `removed` or `absent`.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    #[napi(catch_unwind, ts_return_type = "Promise<string>")]
    pub fn sign_out<'env>(
        &self,
        env: &'env Env,
        alias: Option<String>,
        user: Option<String>,
    ) -> Result<Object<'env>> {
        let opened = self.plugin.sign_in(alias.as_deref(), user.as_deref());
        self.resolve_with(env, async move {
            let sign_in = opened.map_err(|error| (error, true))?;
            let outcome = match sign_in.sign_out().await.map_err(|error| (error, false))? {
                SignedOut::Revoked => "revoked",
                SignedOut::Removed => "removed",
                SignedOut::NotSignedIn => "absent",
            };
            Ok(json!({"alias": sign_in.alias(), "outcome": outcome}))
        })
    }

    /// Compares the card of the target `alias`, or of the only one with pins, with what was accepted of it, and accepts it on behalf
    /// of `accept`, if it has this `fingerprint`. The promise resolves with JSON: the pins, or `{"error", "isUsage", "reason",
    /// "unpinned"}`.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    #[napi(catch_unwind, ts_return_type = "Promise<string>")]
    pub fn pin<'env>(
        &self,
        env: &'env Env,
        alias: Option<String>,
        user: Option<String>,
        accept: Option<String>,
        fingerprint: Option<String>,
    ) -> Result<Object<'env>> {
        let plugin = Arc::clone(&self.plugin);
        self.resolve_with(env, async move {
            let review = PinReview::in_plugin(&plugin, alias.as_deref(), user.as_deref()).await;
            let accept = (accept.as_deref(), fingerprint.as_deref());
            match review.and_then(|mut review| review.answer(accept.0, accept.1)) {
                Ok(answer) => Ok(answer),
                Err(PinReviewError::Card(error)) => Ok(json!({
                    "error": error.message, "isUsage": false, "reason": error.reason,
                })),
                Err(PinReviewError::Unpinned(message)) => Ok(json!({
                    "error": message, "isUsage": true, "unpinned": true,
                })),
                Err(PinReviewError::Refused(message)) => Err((message, false)),
                Err(PinReviewError::Target(message)) => Err((message, true)),
                Err(PinReviewError::Config(error)) => Err((error.to_string(), true)),
            }
        })
    }

    /// Looks for agents that a person may add: `query_json` is an `AgentQuery` of the library. The promise resolves with JSON, the
    /// `FoundAgents` or `{"error", "isUsage"}`.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    #[napi(catch_unwind, ts_return_type = "Promise<string>")]
    pub fn find_agents<'env>(
        &self,
        env: &'env Env,
        query_json: String,
        cancel: &CancelToken,
    ) -> Result<Object<'env>> {
        let (cancel, search) = (cancel.0.clone(), self.plugin.find_agents(&query_json));
        self.resolve_with(env, async move {
            let found = cancel.run_until_cancelled(search).await;
            let found = found.unwrap_or_else(|| Err("the search was cancelled".to_owned()));
            let found = found.map_err(|error| (error, true))?;
            serde_json::to_value(found).map_err(|error| (error.to_string(), false))
        })
    }
}
