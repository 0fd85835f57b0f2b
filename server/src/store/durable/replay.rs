//! Reads a journal from its first line to its last, when a store is opened.
//!
//! A line that is damaged takes no other line with it: the task it is of cannot be read any more, unless a later line has it
//! whole, and every other task is as it was. What a dying process left unfinished at the end of a file was never
//! acknowledged, and is passed over.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{self, Place};
use super::index::{Body, Facts, Index, Live};
use super::line::{self, FORMAT, Head, Kept, Read, RecordHead};
use crate::record::Record;
use crate::store::StoreError;

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Its first byte.
    pub start: u64,
    /// How many bytes it has.
    pub length: usize,
    /// The task it seems to be of.
    pub task: Option<String>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            start,
            length,
            task,
        } = self;
        let file = file.display();
        write!(f, "the line of {length} bytes at byte {start} of `{file}`")?;
        match task {
            Some(task) => write!(f, ", of the task `{}`", task.escape_debug()),
            None => f.write_str(", of nobody knows which task"),
        }
    }
}

/// What a journal says.
pub(super) struct Replayed {
    pub(super) index: Index,
    pub(super) damages: Vec<Damage>,
    /// The sizes of its files, by number.
    pub(super) sizes: Vec<(u64, u64)>,
    /// The last line of the last file has its end.
    pub(super) ended: bool,
    /// Tasks that are settled and of which no line has the whole.
    pub(super) unfolded: Vec<String>,
}

/// The lines of a task that is not settled, or not whole in one line.
struct Chain {
    places: Vec<Place>,
    /// The revision after them.
    next: u64,
    problem: Option<String>,
}

struct Replay<'a> {
    directory: &'a Path,
    replayed: Replayed,
    chains: HashMap<String, Chain>,
    /// Tasks that damaged lines seem to be of.
    suspects: HashMap<String, String>,
}

/// Reads all files in `directory`.
pub(super) fn replay(directory: &Path) -> Result<Replayed, StoreError> {
    let mut replay = Replay {
        directory,
        replayed: Replayed {
            index: Index::default(),
            damages: Vec::new(),
            sizes: Vec::new(),
            ended: true,
            unfolded: Vec::new(),
        },
        chains: HashMap::new(),
        suspects: HashMap::new(),
    };
    let numbers = files::numbers(directory).map_err(|e| files::failed("list", directory, &e))?;
    for number in numbers {
        replay.file(number)?;
    }
    replay.finish()
}

impl Replay<'_> {
    fn file(&mut self, number: u64) -> Result<(), StoreError> {
        let path = files::path(self.directory, number);
        let mut text = Vec::new();
        let file = File::open(&path).and_then(|mut file| {
            if !file.metadata()?.is_file() {
                return Err(std::io::Error::other("it is no file"));
            }
            file.read_to_end(&mut text)?;
            Ok(file)
        });
        let file = file.map_err(|e| files::failed("read", &path, &e))?;
        self.replayed.index.files.insert(number, Arc::new(file));
        self.replayed.sizes.push((number, text.len() as u64));
        let mut start = 0;
        for piece in text.split_inclusive(|byte| *byte == b'\n') {
            let (line, ended) = match piece.strip_suffix(b"\n") {
                Some(line) => (line, true),
                None => (piece, false),
            };
            let place = Place {
                file: number,
                start,
                length: u32::try_from(line.len()).unwrap_or(u32::MAX),
            };
            match line::head(line) {
                Some(Head::Journal { format }) if format != FORMAT => {
                    return Err(StoreError::Failed(format!(
                        "`{}` was written by another version (format {format}, this is {FORMAT}); use that version, or give this server a directory of its own",
                        path.display()
                    )));
                }
                Some(head) => self.line(head, place),
                None if ended => self.damaged(&path, place, line),
                None => {
                    tracing::info!(file = %path.display(), bytes = line.len(), "passed over the unfinished end of a file")
                }
            }
            self.replayed.ended = ended;
            start += piece.len() as u64;
        }
        if text.is_empty() {
            self.replayed.ended = true;
        }
        Ok(())
    }

    fn line(&mut self, head: Head<'_>, place: Place) {
        match head {
            Head::Journal { .. } | Head::Nothing => {}
            Head::New(record) => self.begin(&record, place),
            Head::Whole { record } => {
                self.suspects.remove(record.task.id.as_ref());
                self.begin(&record, place);
            }
            Head::Change { id, revision } => {
                let chain = self.chain(&id);
                if chain.next != revision && chain.problem.is_none() {
                    chain.problem = Some(format!(
                        "what happened to it between its revisions {} and {revision} is missing",
                        chain.next
                    ));
                }
                chain.next = revision + 1;
                chain.places.push(place);
            }
            Head::Push(push) => self.chain(&push.config.task_id).places.push(place),
            Head::Unpush { id } => self.chain(&id).places.push(place),
            Head::Gone(id) => {
                self.suspects.remove(id.as_ref());
                self.chains.remove(id.as_ref());
                self.replayed.index.remove(&id);
            }
            Head::Damaged { id, why } => {
                self.chains.remove(id.as_ref());
                self.suspects.insert(id.into_owned(), why.into_owned());
            }
            Head::Context { id, owner, session } => {
                self.replayed.index.claim(&id, &owner, &session);
            }
        }
    }

    /// A line that has all of a task as it stood.
    fn begin(&mut self, record: &RecordHead<'_>, place: Place) {
        let id = record.task.id.as_ref();
        if record.task.status.state.is_terminal() {
            self.chains.remove(id);
            let facts = Facts {
                id,
                owner: &record.owner,
                context: &record.task.context_id,
                session: &record.session,
                state: record.task.status.state.clone(),
                stood: record.task.status.timestamp,
                changed_ms: record.changed_ms,
                needed: place.bytes(),
            };
            self.replayed.index.put(facts, Body::Settled(place));
        } else {
            let chain = Chain {
                places: vec![place],
                next: record.revision,
                problem: None,
            };
            self.chains.insert(id.to_owned(), chain);
        }
    }

    fn chain(&mut self, id: &str) -> &mut Chain {
        self.chains.entry(id.to_owned()).or_insert_with(|| Chain {
            places: Vec::new(),
            next: 0,
            problem: Some("its beginning is missing".to_owned()),
        })
    }

    fn damaged(&mut self, path: &Path, place: Place, line: &[u8]) {
        let task = task_of_damaged(line);
        tracing::error!(
            file = %path.display(), start = place.start, bytes = line.len(), task = task.as_deref(),
            "a line of the task store is damaged; all others are read"
        );
        if let Some(task) = &task {
            let why = format!(
                "its line at byte {} of `{}` is damaged",
                place.start,
                path.display()
            );
            self.suspects.insert(task.clone(), why);
        }
        self.replayed.damages.push(Damage {
            file: path.to_owned(),
            start: place.start,
            length: line.len(),
            task,
        });
    }

    fn finish(mut self) -> Result<Replayed, StoreError> {
        let index = &mut self.replayed.index;
        for (id, chain) in self.chains {
            let needed = chain.places.iter().map(|place| place.bytes()).sum();
            let suspect = self.suspects.remove(&id);
            let read = match chain.problem {
                Some(problem) => Err(problem),
                None => join(index, &chain.places),
            };
            match (read, suspect) {
                (Ok(live), _) if live.record.is_settled() => {
                    index.put_live(live, needed);
                    self.replayed.unfolded.push(id);
                }
                (Ok(live), None) => index.put_live(live, needed),
                (Ok(_), Some(problem)) | (Err(_), Some(problem)) | (Err(problem), None) => {
                    index.damaged.insert(id, problem);
                }
            }
        }
        for (id, problem) in self.suspects {
            if index.get(&id).is_none() {
                index.damaged.insert(id, problem);
            }
        }
        Ok(self.replayed)
    }
}

/// Reads the lines of a task, and makes it of them.
fn join(index: &Index, places: &[Place]) -> Result<Live, String> {
    let mut joined: Option<Live> = None;
    for place in places {
        let unreadable = || {
            format!(
                "its line at byte {} of file {} cannot be read",
                place.start, place.file
            )
        };
        let file = index.files.get(&place.file).ok_or_else(unreadable)?;
        let line = files::read_at(file, *place).map_err(|_| unreadable())?;
        match (line::read(&line).ok_or_else(unreadable)?, &mut joined) {
            (Read::New(record), _) => {
                joined = Some(Live {
                    record,
                    pushes: Vec::new(),
                })
            }
            (Read::Whole { record, pushes }, _) => joined = Some(Live { record, pushes }),
            (Read::Change { at_ms, change }, Some(live)) => live.record.apply(change, at_ms),
            (Read::Push(kept), Some(live)) => put_push(&mut live.pushes, kept),
            (Read::Unpush { config }, Some(live)) => {
                remove_push(&mut live.pushes, &config);
            }
            (_, None) => return Err("its beginning is missing".to_owned()),
        }
    }
    joined.ok_or_else(|| "its beginning is missing".to_owned())
}

/// Takes a configuration in place of one of the same id.
pub(super) fn put_push(pushes: &mut Vec<Kept>, kept: Kept) {
    match pushes
        .iter_mut()
        .find(|had| had.config.id == kept.config.id)
    {
        Some(had) => *had = kept,
        None => pushes.push(kept),
    }
}

/// Takes a configuration out. Says whether there was one.
pub(super) fn remove_push(pushes: &mut Vec<Kept>, config: &str) -> bool {
    let before = pushes.len();
    pushes.retain(|had| had.config.id.as_deref() != Some(config));
    pushes.len() < before
}

/// Reads a settled task.
pub(super) fn read_whole(file: &File, place: Place) -> Result<(Record, Vec<Kept>), String> {
    let line = files::read_at(file, place).map_err(|error| error.to_string())?;
    match line::read(&line) {
        Some(Read::Whole { record, pushes }) => Ok((record, pushes)),
        Some(Read::New(record)) => Ok((record, Vec::new())),
        _ => Err("its line is damaged".to_owned()),
    }
}

/// The task that a damaged line is of, where it still says so.
pub(super) fn task_of_damaged(line: &[u8]) -> Option<String> {
    /// Where the id of a task is at the latest. Behind it what peers have said may have ids too.
    const FRONT: usize = 48;
    let find = |text: &[u8], key: &[u8]| {
        let at = text.windows(key.len()).position(|piece| piece == key)?;
        Some(at + key.len())
    };
    let front = line.get(..FRONT.min(line.len()))?;
    let at = find(front, br#""id":"#).or_else(|| {
        find(front, br#"{"push":"#)?;
        find(line, br#""taskId":"#)
    })?;
    let mut values = serde_json::Deserializer::from_slice(line.get(at..)?).into_iter::<String>();
    values.next()?.ok()
}
