//! Tasks without a step, and uploaded files that are not yet part of a step. Both are in memory and limited.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a::{A2aError, ErrorReason};
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::{Failure, not_found};

/// How long a draft is kept.
const TIME_TO_LIVE: Duration = Duration::from_secs(60 * 60);

/// The maximum number of drafts of one client.
const MAX_DRAFTS_PER_CLIENT: usize = 100;

/// The maximum number of drafts.
const MAX_DRAFTS: usize = 1000;

/// The maximum size of all drafts, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// The maximum size of all drafts of one client, in bytes.
const MAX_BYTES_PER_CLIENT: usize = 16 << 20;

/// The size that counts for a file in addition to its content, in bytes, for its names. It limits empty files too.
const FILE_OVERHEAD_BYTES: usize = 4096;

/// The maximum length of the name or path of a file, in characters.
const MAX_NAME_CHARS: usize = 255;

/// The input of a task without a step.
#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) text: Option<String>,
    /// The additional input as JSON text, because a draft outlives its request and a parsed value takes many times the
    /// memory of its text.
    additional: Box<str>,
    pub(super) agent: Option<String>,
}

impl Input {
    pub(super) fn new(text: Option<String>, additional: &Value, agent: Option<String>) -> Self {
        Self {
            text,
            additional: additional.to_string().into(),
            agent,
        }
    }

    /// Parses the additional input.
    pub(super) fn additional(&self) -> Value {
        // It is the text of a value.
        serde_json::from_str(&self.additional).unwrap_or_default()
    }

    fn size(&self) -> usize {
        self.text.as_ref().map_or(0, String::len) + self.additional.len()
    }
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
            relative_path: relative_path.and_then(|path| safe_relative_path(&path)),
            media_type: media_type.map(|media_type| sanitize_name(&media_type)),
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

/// Returns the last segment of a path without control characters.
pub(super) fn base_name(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    match sanitize_name(name) {
        name if name.trim_matches('.').is_empty() => "file".to_owned(),
        name => name,
    }
}

/// Returns a path without control characters; `None` if it could leave its directory on some platform.
pub(super) fn safe_relative_path(path: &str) -> Option<String> {
    let path = sanitize_name(path);
    let is_below = |segment: &str| segment != ".." && !segment.contains(['\\', ':']);
    (!path.starts_with('/') && path.split('/').all(is_below)).then_some(path)
}

fn sanitize_name(text: &str) -> String {
    let clean = text.chars().filter(|c| !c.is_control());
    clean.take(MAX_NAME_CHARS).collect()
}

/// A task before its first step, or the uploaded files for the next step of a task.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    owner: String,
    pub(super) input: Option<Input>,
    pub(super) files: Vec<Upload>,
    created: Instant,
}

impl Draft {
    pub(super) fn new(owner: &str, input: Option<Input>, now: Instant) -> Self {
        Self {
            owner: owner.to_owned(),
            input,
            files: Vec::new(),
            created: now,
        }
    }

    fn bytes(&self) -> usize {
        let input = self.input.as_ref().map_or(0, Input::size);
        input + self.files.iter().map(Upload::size).sum::<usize>()
    }

    fn is_expired(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.created) >= TIME_TO_LIVE
    }
}

/// The drafts of all clients, by the id of the task.
#[derive(Default)]
pub(super) struct Drafts(Mutex<HashMap<String, Draft>>);

impl Drafts {
    /// Adds a draft. In all methods, `now` is the current time.
    ///
    /// # Errors
    /// The client or the server has its maximum number or size of drafts.
    pub(super) fn insert(&self, task: &str, draft: Draft, now: Instant) -> Result<(), Failure> {
        let mut all = self.lock_unexpired(now);
        check_count(&all, &draft.owner)?;
        check_bytes(&all, &draft.owner, draft.bytes())?;
        all.insert(task.to_owned(), draft);
        Ok(())
    }

    /// Adds a file for the next step of a task.
    ///
    /// # Errors
    /// The same errors as [`insert`](Self::insert).
    pub(super) fn add(
        &self,
        client: &str,
        task: &str,
        file: Upload,
        now: Instant,
    ) -> Result<(), Failure> {
        let mut all = self.lock_unexpired(now);
        check_bytes(&all, client, file.size())?;
        match all.get_mut(task) {
            Some(draft) if draft.owner == client => draft.files.push(file),
            Some(_) => return Err(not_found("task")),
            None => {
                check_count(&all, client)?;
                let mut draft = Draft::new(client, None, now);
                draft.files.push(file);
                all.insert(task.to_owned(), draft);
            }
        }
        Ok(())
    }

    /// Returns the draft of a task if this client owns it.
    pub(super) fn get(&self, client: &str, task: &str, now: Instant) -> Option<Draft> {
        let all = self.lock_unexpired(now);
        let draft = all.get(task).filter(|draft| draft.owner == client);
        draft.cloned()
    }

    /// Returns the client's tasks without a step and their inputs, the newest task first.
    pub(super) fn unstarted(&self, client: &str, now: Instant) -> Vec<(String, Option<String>)> {
        let all = self.lock_unexpired(now);
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

    /// Removes the expired drafts and returns the others.
    fn lock_unexpired(&self, now: Instant) -> MutexGuard<'_, HashMap<String, Draft>> {
        let mut all = self.0.lock();
        all.retain(|_, draft| !draft.is_expired(now));
        all
    }

    /// Removes the input and the files that a step has used. A file that was uploaded in the meantime remains for the
    /// next step.
    pub(super) fn remove_used(&self, task: &str, used: Option<&Draft>) {
        let Some(used) = used else { return };
        let mut all = self.0.lock();
        let Some(draft) = all.get_mut(task) else {
            return;
        };
        draft.input = None;
        draft
            .files
            .retain(|file| used.files.iter().all(|used| used.id != file.id));
        if draft.files.is_empty() {
            all.remove(task);
        }
    }
}

fn check_count(all: &HashMap<String, Draft>, client: &str) -> Result<(), Failure> {
    let own = all.values().filter(|known| known.owner == client).count();
    match own < MAX_DRAFTS_PER_CLIENT && all.len() < MAX_DRAFTS {
        true => Ok(()),
        false => Err(drafts_full("too many tasks have no step yet")),
    }
}

fn check_bytes(all: &HashMap<String, Draft>, client: &str, more: usize) -> Result<(), Failure> {
    let (mut total, mut own) = (more, more);
    for draft in all.values() {
        total = total.saturating_add(draft.bytes());
        if draft.owner == client {
            own = own.saturating_add(draft.bytes());
        }
    }
    match total <= MAX_BYTES && own <= MAX_BYTES_PER_CLIENT {
        true => Ok(()),
        false => Err(drafts_full("too many bytes wait for their step")),
    }
}

fn drafts_full(reason: &str) -> Failure {
    let text = format!("{reason}; execute a step of one of them, or try again later");
    A2aError::new(ErrorReason::ResourceExhausted, text).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::LazyLock;

    use super::*;

    static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);

    fn draft(owner: &str) -> Draft {
        let input = Input::new(Some("hello".to_owned()), &Value::Null, None);
        Draft::new(owner, Some(input), *NOW)
    }

    fn file(bytes: usize) -> Upload {
        Upload::new(None, None, None, vec![0; bytes].into())
    }

    #[test]
    fn draft_belongs_to_its_client() {
        let drafts = Drafts::default();
        drafts.insert("task", draft("ada"), *NOW).unwrap();
        assert!(drafts.get("bob", "task", *NOW).is_none());
        assert!(drafts.unstarted("bob", *NOW).is_empty());
        assert!(drafts.get("ada", "task", *NOW).is_some());
    }

    #[test]
    fn drafts_of_a_client_are_bounded() {
        let drafts = Drafts::default();
        for number in 0..MAX_DRAFTS_PER_CLIENT {
            drafts
                .insert(&number.to_string(), draft("ada"), *NOW)
                .unwrap();
        }
        assert!(drafts.insert("one more", draft("ada"), *NOW).is_err());
        assert!(drafts.insert("other", draft("bob"), *NOW).is_ok());
    }

    #[test]
    fn bytes_of_all_drafts_are_bounded() {
        let drafts = Drafts::default();
        let clients = MAX_BYTES / MAX_BYTES_PER_CLIENT;
        for client in 0..clients {
            let (client, task) = (client.to_string(), format!("task-{client}"));
            drafts.insert(&task, draft(&client), *NOW).unwrap();
            let most = MAX_BYTES_PER_CLIENT - 2 * FILE_OVERHEAD_BYTES;
            drafts.add(&client, &task, file(most), *NOW).unwrap();
            assert!(
                drafts
                    .add(&client, &task, file(FILE_OVERHEAD_BYTES), *NOW)
                    .is_err()
            );
        }
        drafts.insert("another", draft("ada"), *NOW).unwrap();
        assert!(drafts.add("ada", "another", file(1 << 20), *NOW).is_err());
    }

    #[test]
    fn empty_files_of_a_draft_are_bounded() {
        let drafts = Drafts::default();
        drafts.insert("task", draft("ada"), *NOW).unwrap();
        let added = (0..10_000).take_while(|_| drafts.add("ada", "task", file(0), *NOW).is_ok());
        assert!(added.count() < MAX_BYTES_PER_CLIENT / FILE_OVERHEAD_BYTES);
    }

    #[test]
    fn file_uploaded_during_a_step_stays_for_the_next() {
        let drafts = Drafts::default();
        drafts.insert("task", draft("ada"), *NOW).unwrap();
        drafts.add("ada", "task", file(1), *NOW).unwrap();
        let used = drafts.get("ada", "task", *NOW).unwrap();
        drafts.add("ada", "task", file(2), *NOW).unwrap();
        drafts.remove_used("task", Some(&used));
        let remaining = drafts.get("ada", "task", *NOW).unwrap();
        assert!(remaining.input.is_none());
        assert_eq!(remaining.files[0].bytes.len(), 2);
        drafts.remove_used("task", Some(&remaining));
        assert!(drafts.get("ada", "task", *NOW).is_none());
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

    #[test]
    fn draft_ends_after_an_hour() {
        let drafts = Drafts::default();
        drafts.insert("task", draft("ada"), *NOW).unwrap();
        let before = *NOW + TIME_TO_LIVE - Duration::from_millis(1);
        assert!(drafts.get("ada", "task", before).is_some());
        assert!(drafts.get("ada", "task", *NOW + TIME_TO_LIVE).is_none());
    }

    #[test]
    fn concurrent_uploads_are_all_stored() {
        let drafts = Drafts::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| drafts.add("ada", "task", file(1), *NOW).unwrap());
            }
        });
        assert_eq!(drafts.get("ada", "task", *NOW).unwrap().files.len(), 8);
    }

    #[test]
    fn path_that_leaves_its_directory_is_dropped() {
        for path in ["/etc", "../a", "a/../../b", "a\\b", "C:/a", ".."] {
            assert_eq!(safe_relative_path(path), None, "{path}");
        }
        assert_eq!(
            safe_relative_path("folder/a..b").as_deref(),
            Some("folder/a..b")
        );
    }
}
