//! Tasks without a step, and uploaded files that no step has taken yet. Both are kept in memory, within bounds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a::{A2aError, ErrorReason};
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Failure;

/// How long a draft without a step is kept.
const TIME_TO_LIVE: Duration = Duration::from_secs(60 * 60);

/// The maximum number of drafts of one client.
const MAX_DRAFTS_PER_CLIENT: usize = 100;

/// The maximum number of drafts.
const MAX_DRAFTS: usize = 1000;

/// The maximum size of all drafts, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// The maximum size of the drafts of one client, in bytes.
const MAX_BYTES_PER_CLIENT: usize = 16 << 20;

/// The size that a file has beside its content, in bytes: its names, so that empty files count too.
const FILE_OVERHEAD_BYTES: usize = 4096;

/// The longest name or path of a file, in characters.
const MAX_NAME_CHARS: usize = 255;

/// The input of a task without a step.
#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) text: Option<String>,
    pub(super) additional: Value,
    pub(super) agent: Option<String>,
}

/// An uploaded file.
#[derive(Debug, Clone)]
pub(super) struct Upload {
    pub(super) id: Arc<str>,
    pub(super) file_name: String,
    pub(super) relative_path: Option<String>,
    pub(super) media_type: Option<String>,
    pub(super) bytes: Bytes,
}

impl Upload {
    pub(super) fn new(
        file_name: Option<String>,
        relative_path: Option<String>,
        media_type: Option<String>,
        bytes: Bytes,
    ) -> Self {
        Self {
            id: uuid::Uuid::new_v4().to_string().into(),
            file_name: base_name(&file_name.unwrap_or_default()),
            relative_path: relative_path.map(|path| short(&path)),
            media_type: media_type.map(|media_type| short(&media_type)),
            bytes,
        }
    }

    fn size(&self) -> usize {
        self.bytes.len() + FILE_OVERHEAD_BYTES
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "artifact_id": &*self.id,
            "agent_created": false,
            "file_name": self.file_name,
            "relative_path": self.relative_path,
        })
    }
}

/// Returns the last segment of a path, without control characters.
pub(super) fn base_name(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    match short(name) {
        name if name.trim_matches('.').is_empty() => "file".to_owned(),
        name => name,
    }
}

fn short(text: &str) -> String {
    let clean = text.chars().filter(|c| !c.is_control());
    clean.take(MAX_NAME_CHARS).collect()
}

/// A task before its first step, or the files for the next step of a task.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    owner: String,
    pub(super) input: Option<Input>,
    pub(super) files: Vec<Upload>,
    created: Instant,
}

impl Draft {
    pub(super) fn new(owner: &str, input: Option<Input>) -> Self {
        Self {
            owner: owner.to_owned(),
            input,
            files: Vec::new(),
            created: Instant::now(),
        }
    }

    fn bytes(&self) -> usize {
        let input = self.input.as_ref().map_or(0, |input| {
            input.text.as_ref().map_or(0, String::len) + input.additional.to_string().len()
        });
        input + self.files.iter().map(Upload::size).sum::<usize>()
    }
}

/// The drafts of all clients, by the id of the task.
#[derive(Default)]
pub(super) struct Drafts(Mutex<HashMap<String, Draft>>);

impl Drafts {
    /// Adds a draft.
    ///
    /// # Errors
    /// The client, or the server, has its maximum number or size of drafts.
    pub(super) fn insert(&self, task: &str, draft: Draft) -> Result<(), Failure> {
        let mut all = self.0.lock();
        all.retain(|_, draft| draft.created.elapsed() < TIME_TO_LIVE);
        let own = all.values().filter(|known| known.owner == draft.owner);
        if own.count() >= MAX_DRAFTS_PER_CLIENT || all.len() >= MAX_DRAFTS {
            return Err(full("too many tasks have no step yet"));
        }
        check_bytes(&all, &draft.owner, draft.bytes())?;
        all.insert(task.to_owned(), draft);
        Ok(())
    }

    /// Adds a file for the next step of a task.
    ///
    /// # Errors
    /// The same as [`insert`](Self::insert).
    pub(super) fn add(&self, client: &str, task: &str, file: Upload) -> Result<(), Failure> {
        if self.get(client, task).is_none() {
            self.insert(task, Draft::new(client, None))?;
        }
        let mut all = self.0.lock();
        check_bytes(&all, client, file.size())?;
        if let Some(draft) = all.get_mut(task) {
            draft.files.push(file);
        }
        Ok(())
    }

    /// Returns the draft of a task of this client.
    pub(super) fn get(&self, client: &str, task: &str) -> Option<Draft> {
        let all = self.0.lock();
        let draft = all.get(task).filter(|draft| draft.owner == client);
        draft.cloned()
    }

    /// Returns the input of a task without a step.
    pub(super) fn input(&self, client: &str, task: &str) -> Option<Input> {
        self.get(client, task)?.input
    }

    /// Returns the tasks of this client without a step, with their inputs, the newest first.
    pub(super) fn unstarted(&self, client: &str) -> Vec<(String, Option<String>)> {
        let all = self.0.lock();
        let own = all.iter().filter(|(_, draft)| draft.owner == client);
        let mut own: Vec<_> = own
            .filter_map(|(task, draft)| {
                Some((
                    draft.created,
                    task.clone(),
                    draft.input.as_ref()?.text.clone(),
                ))
            })
            .collect();
        own.sort_by_key(|(created, ..)| std::cmp::Reverse(*created));
        own.into_iter()
            .map(|(_, task, input)| (task, input))
            .collect()
    }

    /// Removes what a step took. A file that was uploaded meanwhile stays for the next one.
    pub(super) fn take(&self, task: &str, taken: Option<&Draft>) {
        let Some(taken) = taken else { return };
        let mut all = self.0.lock();
        let Some(draft) = all.get_mut(task) else {
            return;
        };
        draft.input = None;
        draft
            .files
            .retain(|file| taken.files.iter().all(|taken| taken.id != file.id));
        if draft.files.is_empty() {
            all.remove(task);
        }
    }
}

fn check_bytes(all: &HashMap<String, Draft>, client: &str, more: usize) -> Result<(), Failure> {
    let (mut held, mut own) = (more, more);
    for draft in all.values() {
        held = held.saturating_add(draft.bytes());
        if draft.owner == client {
            own = own.saturating_add(draft.bytes());
        }
    }
    match held <= MAX_BYTES && own <= MAX_BYTES_PER_CLIENT {
        true => Ok(()),
        false => Err(full("too many bytes wait for their step")),
    }
}

fn full(why: &str) -> Failure {
    let text = format!("{why}; execute a step of one of them, or try again later");
    A2aError::new(ErrorReason::ResourceExhausted, text).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn draft(owner: &str) -> Draft {
        let input = Input {
            text: Some("hello".to_owned()),
            additional: Value::Null,
            agent: None,
        };
        Draft::new(owner, Some(input))
    }

    fn file(bytes: usize) -> Upload {
        Upload::new(None, None, None, vec![0; bytes].into())
    }

    #[test]
    fn draft_belongs_to_its_client() {
        let drafts = Drafts::default();
        drafts.insert("task", draft("ada")).unwrap();
        assert!(drafts.get("bob", "task").is_none());
        assert!(drafts.unstarted("bob").is_empty());
        assert!(drafts.get("ada", "task").is_some());
    }

    #[test]
    fn drafts_of_a_client_are_bounded() {
        let drafts = Drafts::default();
        for number in 0..MAX_DRAFTS_PER_CLIENT {
            drafts.insert(&number.to_string(), draft("ada")).unwrap();
        }
        assert!(drafts.insert("one more", draft("ada")).is_err());
        assert!(drafts.insert("other", draft("bob")).is_ok());
    }

    #[test]
    fn bytes_of_all_drafts_are_bounded() {
        let drafts = Drafts::default();
        let clients = MAX_BYTES / MAX_BYTES_PER_CLIENT;
        for client in 0..clients {
            let (client, task) = (client.to_string(), format!("task-{client}"));
            drafts.insert(&task, draft(&client)).unwrap();
            let most = MAX_BYTES_PER_CLIENT - 2 * FILE_OVERHEAD_BYTES;
            drafts.add(&client, &task, file(most)).unwrap();
            assert!(
                drafts
                    .add(&client, &task, file(FILE_OVERHEAD_BYTES))
                    .is_err()
            );
        }
        drafts.insert("another", draft("ada")).unwrap();
        assert!(drafts.add("ada", "another", file(1 << 20)).is_err());
    }

    #[test]
    fn empty_files_of_a_draft_are_bounded() {
        let drafts = Drafts::default();
        drafts.insert("task", draft("ada")).unwrap();
        let added = (0..10_000).take_while(|_| drafts.add("ada", "task", file(0)).is_ok());
        assert!(added.count() < MAX_BYTES_PER_CLIENT / FILE_OVERHEAD_BYTES);
    }

    #[test]
    fn file_uploaded_during_a_step_stays_for_the_next() {
        let drafts = Drafts::default();
        drafts.insert("task", draft("ada")).unwrap();
        drafts.add("ada", "task", file(1)).unwrap();
        let taken = drafts.get("ada", "task").unwrap();
        drafts.add("ada", "task", file(2)).unwrap();
        drafts.take("task", Some(&taken));
        let left = drafts.get("ada", "task").unwrap();
        assert!(left.input.is_none());
        assert_eq!(left.files[0].bytes.len(), 2);
        drafts.take("task", Some(&left));
        assert!(drafts.get("ada", "task").is_none());
    }

    #[test]
    fn name_of_a_file_is_its_last_segment() {
        for (path, name) in [
            ("../../etc/passwd", "passwd"),
            ("C:\\plan.txt", "plan.txt"),
            ("..", "file"),
            ("a\u{0}\nb", "ab"),
        ] {
            assert_eq!(base_name(path), name);
        }
    }
}
