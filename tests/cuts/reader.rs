//! Builds artifacts from events by the rules of the protocol.

use serde_json::Value;

/// An artifact: its id, its text, and its other parts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Artifact {
    pub(crate) id: String,
    pub(crate) text: String,
    others: Vec<Value>,
}

impl Artifact {
    fn of(artifact: &Value) -> Self {
        let mut reported = Self {
            id: artifact["artifactId"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            text: String::new(),
            others: Vec::new(),
        };
        reported.take(artifact);
        reported
    }

    fn take(&mut self, artifact: &Value) {
        for part in list(&artifact["parts"]) {
            match part["text"].as_str() {
                Some(text) => self.text.push_str(text),
                None => self.others.push(part.clone()),
            }
        }
    }
}

/// Returns the artifacts of a list.
pub(crate) fn artifacts(list_of_them: &Value) -> Vec<Artifact> {
    list(list_of_them).iter().map(Artifact::of).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The artifacts of a task, built from its events.
#[derive(Debug, Default, Clone)]
pub(crate) struct Reader(pub(crate) Vec<Artifact>);

impl Reader {
    /// Applies one event in the names of A2A 0.3.
    pub(crate) fn read(&mut self, event: &Value) {
        match event["kind"].as_str() {
            Some("task") => {
                let shown = artifacts(&event["artifacts"]);
                // A snapshot without artifacts removes none.
                if !shown.is_empty() {
                    self.0 = shown;
                }
            }
            Some("artifact-update") => {
                let piece = Artifact::of(&event["artifact"]);
                let append = event["append"] == true;
                match self.0.iter_mut().find(|known| known.id == piece.id) {
                    Some(known) if append => known.take(&event["artifact"]),
                    Some(known) => *known = piece,
                    None => self.0.push(piece),
                }
            }
            _ => {}
        }
    }
}
