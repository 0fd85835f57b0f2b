//! What is kept of a card, within bounds, and what differs in another one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::mem;

use a2a::card_fields::{
    CardFields, CardSigner, FieldClass, INTERFACE, INTERFACES, ORIGINS, SIGNATURES, class_of, push,
};
use a2a::{Card, Interface};
use base::text::{first_chars, hex, shortened};
use base::visible::visible;
use ring::digest::{Context, SHA256, digest};
use serde_json::{Value, json};

/// How many fields of each class are kept one by one. A digest stands for the others.
const MAX_FIELDS: usize = 100;

/// The longest text that is kept, in bytes. The beginning and a digest stand for a longer one.
const MAX_TEXT_BYTES: usize = 240;
const MAX_STEP_BYTES: usize = 100;

/// What separates the beginning of a text from its digest.
const DIGEST_MARK: &str = "… sha256:";

/// How many changes an error or a result lists, which a model may read.
pub(super) const MAX_CHANGES: usize = 20;

/// The longest texts of a change in an error or a result, in characters.
const MAX_SHOWN_CHARS: usize = 200;

/// A field that differs from what was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardChange {
    /// Where it is in the card. Skills are named by their ids and extensions by their URIs.
    pub path: String,
    /// What was accepted.
    pub old: Option<String>,
    /// What the card has now.
    pub new: Option<String>,
    /// How much it matters.
    pub class: FieldClass,
}

impl CardChange {
    /// Returns the change as results show it. A reader sees neither hidden characters nor a long text.
    pub fn to_json(&self) -> Value {
        let shown = |text: &str| shortened(&visible(text), MAX_SHOWN_CHARS);
        let [old, new] = [&self.old, &self.new].map(|text| text.as_deref().map(shown));
        json!({"path": shown(&self.path), "old": old, "new": new, "class": self.class})
    }

    /// Returns the name of the part of the card, which is ours and not the agent's.
    pub fn part(&self) -> &str {
        let path = self.path.strip_prefix(EXTENDED).unwrap_or(&self.path);
        path.split('/').nth(1).unwrap_or_default()
    }

    /// Returns what identifies the new value.
    pub(super) fn id(&self) -> String {
        let key = json!([self.path, self.new]).to_string();
        short_digest(&key)
    }
}

/// Adds changes to a JSON object that a model may read, within bounds.
pub fn add_changes(shown: &mut Value, changes: &[CardChange]) {
    let listed = changes.iter().take(MAX_CHANGES).map(CardChange::to_json);
    if !changes.is_empty() {
        shown["changes"] = listed.collect();
    }
    if changes.len() > MAX_CHANGES {
        shown["more_changes"] = (changes.len() - MAX_CHANGES).into();
    }
}

/// What is kept of the cards that a target has now.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SeenCards {
    pub(in crate::targets) public: CardFields,
    /// The extended card, if the agent has returned it.
    pub(in crate::targets) extended: Option<CardFields>,
}

impl SeenCards {
    /// Returns who signed the card.
    pub fn signers(&self) -> &[CardSigner] {
        &self.public.signers
    }

    /// Returns what stands for all that is kept of the cards. No second card with the same one can be found.
    pub fn fingerprint(&self) -> String {
        let kept = |card: &CardFields| json!([card.values, card.signers]);
        let cards = [Some(&self.public), self.extended.as_ref()];
        short_digest(&json!(cards.map(|card| card.map(kept))).to_string())
    }
}

/// What the paths of the extended card begin with.
pub(super) const EXTENDED: &str = "/extendedCard";

/// Takes what is kept of a card out of it. `preferred` is the place of the interface that calls use; where an `endpoint` replaces
/// the addresses of the card, they do not matter.
pub(in crate::targets) fn take_fields(
    card: &mut Card,
    preferred: Option<usize>,
    has_endpoint: bool,
) -> CardFields {
    let mut fields = mem::take(&mut card.fields);
    for interface in &card.interfaces {
        let kept = members(interface, has_endpoint).map(|text| kept(text, MAX_TEXT_BYTES));
        fields.add_item(INTERFACES, &joined(kept.each_ref().map(String::as_str)));
        if let Some(url) = interface.address.as_ref().filter(|_| !has_endpoint) {
            fields.add_item(ORIGINS, &url.origin().ascii_serialization());
        }
    }
    if let Some(interface) = card.interfaces.get(preferred.unwrap_or(0)) {
        let named = MEMBERS.into_iter().zip(members(interface, has_endpoint));
        let named = named.filter(|(_, value)| !value.is_empty());
        let named = named.map(|(name, value)| (format!("{INTERFACE}/{name}"), value.to_owned()));
        fields.values.extend(named);
    }
    bounded(fields)
}

/// Takes what is kept of an extended card out of it. It does not say how the agent is called.
pub(in crate::targets) fn take_extended_fields(card: &mut Card) -> CardFields {
    bounded(mem::take(&mut card.fields))
}

const MEMBERS: [&str; 4] = ["binding", "version", "url", "tenant"];

fn members(interface: &Interface, has_endpoint: bool) -> [&str; 4] {
    [
        &interface.transport,
        interface.version.as_deref().unwrap_or_default(),
        if has_endpoint { "" } else { &interface.url },
        interface.tenant.as_deref().unwrap_or_default(),
    ]
}

fn joined(members: [&str; 4]) -> String {
    members.join(" ").trim_end().to_owned()
}

/// Returns the fields within bounds, so that no card makes a file large.
fn bounded(fields: CardFields) -> CardFields {
    let mut values = BTreeMap::new();
    let mut counts = [0; 3];
    let mut rests: [Option<Context>; 3] = Default::default();
    for (path, value) in fields.values {
        let class = class_of(&path) as usize;
        if counts[class] == MAX_FIELDS {
            let rest = rests[class].get_or_insert_with(|| Context::new(&SHA256));
            rest.update(json!([path, value]).to_string().as_bytes());
            continue;
        }
        counts[class] += 1;
        values.insert(kept_path(&path), kept(&value, MAX_TEXT_BYTES));
    }
    for (rest, name) in rests.into_iter().zip(["stop", "report", "note"]) {
        if let Some(rest) = rest {
            values.insert(format!("/more/{name}"), hex(rest.finish().as_ref()));
        }
    }
    let signers = fields.signers;
    CardFields { values, signers }
}

fn kept_path(path: &str) -> String {
    let steps = path.split('/').map(|step| kept(step, MAX_STEP_BYTES));
    steps.collect::<Vec<_>>().join("/")
}

/// Returns a text, or its beginning with a digest. A text that looks like that gets one too: it must not pass for another.
fn kept(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes && !text.contains(DIGEST_MARK) {
        return text.to_owned();
    }
    let start = first_chars(text, max_bytes / 4);
    format!("{start}{DIGEST_MARK}{}", short_digest(text))
}

/// Returns half of a SHA-256: for 16 bytes a second text cannot be found.
pub(super) fn short_digest(text: &str) -> String {
    hex(&digest(&SHA256, text.as_bytes()).as_ref()[..16])
}

/// Returns what differs, what matters most first.
pub(super) fn changes(old: &CardFields, new: &CardFields) -> Vec<CardChange> {
    let paths: BTreeSet<_> = old.values.keys().chain(new.values.keys()).collect();
    let mut all = Vec::new();
    for path in paths {
        let [before, after] = [old, new].map(|fields| fields.values.get(path));
        if before != after {
            all.push(CardChange {
                path: path.clone(),
                old: before.cloned(),
                new: after.cloned(),
                class: class_of_change(path, after.is_some()),
            });
        }
    }
    if is_other_choice(old, new) {
        all.retain(|change| change.part() != &INTERFACE[1..]);
    }
    // A skill that comes or goes is one change, with its name.
    let mut items = HashSet::new();
    for change in &mut all {
        for (value, fields) in [(&mut change.old, old), (&mut change.new, new)] {
            if let Some(value) = value.as_mut().filter(|value| value.is_empty()) {
                let name = fields.values.get(&format!("{}/name", change.path));
                name.into_iter().for_each(|name| value.clone_from(name));
                items.insert(change.path.clone());
            }
        }
    }
    all.retain(|change| {
        let list = change.path.rsplit_once('/').map_or("", |(list, _)| list);
        change.class == FieldClass::Stop || !items.contains(list)
    });
    all.extend(signer_change(&old.signers, &new.signers));
    all.sort_by_key(|change| change.class);
    all
}

fn class_of_change(path: &str, is_present: bool) -> FieldClass {
    let demands_less = !is_present
        && (path.starts_with(ORIGINS)
            || (path.starts_with("/capabilities/extensions/") && path.ends_with("/required")));
    match demands_less {
        true => FieldClass::Report,
        false => class_of(path),
    }
}

/// Returns whether calls use another interface only because of the order in the card or of the settings: the accepted card and
/// the new one have both.
fn is_other_choice(old: &CardFields, new: &CardFields) -> bool {
    let preferred = |fields: &CardFields| {
        let member = |name| fields.values.get(&format!("{INTERFACE}/{name}"));
        joined(MEMBERS.map(|name| member(name).map_or("", |value| value)))
    };
    let has = |fields: &CardFields, interface: &str| {
        let mut path = INTERFACES.to_owned();
        push(&mut path, interface);
        fields.values.contains_key(&kept_path(&path))
    };
    has(old, &preferred(new)) && has(new, &preferred(old))
}

/// Returns the change of the signers. A new key is accepted with the signature of a pinned one beside it, or from the operator.
fn signer_change(old: &[CardSigner], new: &[CardSigner]) -> Option<CardChange> {
    let shown = |signers: &[CardSigner]| {
        let all = signers.iter().map(|signer| {
            let key = signer.thumbprint.as_deref().unwrap_or("not verified");
            format!("{} {} ({key})", signer.alg, signer.kid)
        });
        let mut all: Vec<_> = all.collect();
        all.sort_unstable();
        (!all.is_empty()).then(|| all.join(", "))
    };
    let (before, after) = (shown(old), shown(new));
    if before == after {
        return None;
    }
    let is_verified = |signers: &[CardSigner]| signers.iter().any(|one| one.thumbprint.is_some());
    let shares = |key: fn(&CardSigner) -> (&str, &str)| {
        new.iter()
            .any(|one| old.iter().any(|other| key(one) == key(other)))
    };
    let is_accepted = match (is_verified(old), is_verified(new)) {
        _ if new.is_empty() => false,
        _ if old.is_empty() || new.iter().all(|signer| signer.configured) => true,
        (true, true) => shares(|one| (&one.alg, one.thumbprint.as_deref().unwrap_or_default())),
        // The operator has begun to require signatures.
        (false, true) => true,
        (_, false) => shares(|one| (&one.alg, &one.kid)),
    };
    Some(CardChange {
        path: SIGNATURES.to_owned(),
        old: before,
        new: after,
        class: match is_accepted {
            true => FieldClass::Note,
            false => FieldClass::Stop,
        },
    })
}

#[cfg(test)]
pub(super) mod tests;
