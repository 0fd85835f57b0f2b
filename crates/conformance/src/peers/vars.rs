//! Placeholders `{{…}}` in the responses of a peer.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::template;

/// The values of placeholders in one response.
pub(super) struct Vars<'a> {
    pub(super) own_origin: &'a str,
    pub(super) origins: &'a BTreeMap<String, String>,
    pub(super) rpc_id: Option<&'a Value>,
}

impl Vars<'_> {
    fn lookup(&self, name: &str) -> Option<String> {
        if name == "origin" {
            return Some(self.own_origin.to_owned());
        }
        lookup_origin(self.origins, name)
    }

    pub(super) fn fill_value(&self, value: &Value) -> Value {
        template::fill_value(value, &|name| self.lookup(name))
    }

    pub(super) fn fill<'t>(&self, text: &'t str) -> Cow<'t, str> {
        template::fill(text, &|name| self.lookup(name))
    }

    /// In raw bytes `{{rpc_id}}` is the request's id as JSON.
    pub(super) fn fill_raw(&self, text: &str) -> String {
        let id = || {
            self.rpc_id
                .map_or_else(|| "null".to_owned(), Value::to_string)
        };
        template::fill(text, &|name| {
            if name == "rpc_id" {
                Some(id())
            } else {
                self.lookup(name)
            }
        })
        .into_owned()
    }
}

/// Resolves `origin:NAME` and `port:NAME`.
pub(crate) fn lookup_origin(origins: &BTreeMap<String, String>, name: &str) -> Option<String> {
    let (what, peer) = name.split_once(':')?;
    let origin = origins.get(peer)?;
    match what {
        "origin" => Some(origin.clone()),
        "port" => origin.rsplit(':').next().map(str::to_owned),
        _ => None,
    }
}
