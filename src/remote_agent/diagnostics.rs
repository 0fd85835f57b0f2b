//! Diagnostics of a refused message: the media types that it sends and accepts, against those of the peer's card.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;
use url::Url;

use a2a::{CardView, Part, SendRequest};

use super::error::ToolError;

/// `error.details.capability_diagnostics` of a failed send.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub(super) struct Diagnostics {
    requested_input_modes: Vec<String>,
    unknown_file_attachments: Vec<usize>,
    advertised_input_modes: Vec<String>,
    unsupported_input_modes: Vec<String>,
    requested_output_modes: Vec<String>,
    advertised_output_modes: Vec<String>,
    unsupported_output_modes: Vec<String>,
}

/// The media types that a request sends and accepts.
#[derive(Debug, Clone, Default)]
pub(super) struct MediaTypes {
    input: Vec<String>,
    unknown: Vec<usize>,
    output: Vec<String>,
}

const UNKNOWN: &str = "unknown";

impl MediaTypes {
    pub(super) fn new(outgoing: &SendRequest) -> Self {
        let mut types = Self {
            output: normalized(outgoing.accepted_output_modes.iter()),
            ..Self::default()
        };
        let mut seen = HashSet::new();
        for (i, part) in outgoing.parts.iter().enumerate() {
            let mode = match part.kind() {
                "file" => file_mode(part).unwrap_or_else(|| {
                    types.unknown.push(i);
                    UNKNOWN.to_owned()
                }),
                "data" => "application/json".to_owned(),
                _ => "text/plain".to_owned(),
            };
            if seen.insert(mode.clone()) {
                types.input.push(mode);
            }
        }
        types
    }

    /// Compares the media types with a card. Without a card the peer's are unknown.
    pub(super) fn compare(&self, card: Option<&CardView>) -> Diagnostics {
        let advertised = |of_card: fn(&CardView) -> &Vec<String>,
                          of_skill: fn(&a2a::Skill) -> &Vec<String>| {
            let card_modes = card.into_iter().flat_map(of_card);
            let skill_modes = card
                .into_iter()
                .flat_map(|card| card.skills.iter().flat_map(of_skill));
            normalized(card_modes.chain(skill_modes))
        };
        let input = advertised(|card| &card.default_input_modes, |skill| &skill.input_modes);
        let output = advertised(
            |card| &card.default_output_modes,
            |skill| &skill.output_modes,
        );
        let missing = |requested: &[String], offered: &[String]| {
            let offered: HashSet<&String> = offered.iter().collect();
            let known = requested.iter().filter(|mode| *mode != UNKNOWN);
            known
                .filter(|mode| !offered.contains(mode))
                .cloned()
                .collect()
        };
        Diagnostics {
            unsupported_input_modes: missing(&self.input, &input),
            unsupported_output_modes: missing(&self.output, &output),
            requested_input_modes: self.input.clone(),
            unknown_file_attachments: self.unknown.clone(),
            advertised_input_modes: input,
            requested_output_modes: self.output.clone(),
            advertised_output_modes: output,
        }
    }
}

/// Returns a file's media type: as given, else by the extension of its URL, else by that of its name.
fn file_mode(part: &Part) -> Option<String> {
    if let Some(media_type) = part
        .file_field("mimeType")
        .map(str::trim)
        .filter(|media_type| !media_type.is_empty())
    {
        return Some(media_type.to_ascii_lowercase());
    }
    let by_path = |path: &str| {
        mime_guess::from_path(path)
            .first()
            .map(|mime| mime.essence_str().to_owned())
    };
    let url = part.file_field("uri").and_then(|uri| Url::parse(uri).ok());
    url.and_then(|url| by_path(url.path()))
        .or_else(|| part.file_field("name").and_then(by_path))
}

/// Trims, lower-cases and deduplicates. A card may list any number of media types.
fn normalized<'a>(modes: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen = HashSet::new();
    modes
        .map(|mode| mode.trim().to_ascii_lowercase())
        .filter(|mode| !mode.is_empty() && seen.insert(mode.clone()))
        .collect()
}

/// Adds the diagnostics of a failed send to `details`.
pub(super) fn with_diagnostics(error: ToolError, diagnostics: &Diagnostics) -> ToolError {
    let diagnostics = serde_json::to_value(diagnostics).unwrap_or(Value::Null);
    error.with("capability_diagnostics", diagnostics)
}
