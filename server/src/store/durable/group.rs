//! Requests that are written in one go: each is judged by what is kept, becomes lines, and is applied once they are kept.

use std::collections::HashSet;
use std::sync::Arc;

use a2a::TaskState;

use super::command::{Answer, Append, Ask, Command, Reply};
use super::files::Place;
use super::index::{Body, Index, Live};
use super::line::{Kept, Write};
use super::replay::{put_push, read_whole, remove_push};
use crate::record::{Change, Record};
use crate::store::hub::Hub;
use crate::store::{Context, StoreError};

/// Lines, and what comes true with them.
#[derive(Default)]
pub(super) struct Group {
    pub(super) lines: Vec<u8>,
    effects: Vec<(Effect, Option<Reply>)>,
    about: HashSet<String>,
}

enum Effect {
    Created(Box<Record>, u64),
    Changed {
        id: String,
        at_ms: i64,
        change: Change,
        bytes: u64,
    },
    /// A task as it is with its last change, and where the line is that has it whole.
    Settled {
        record: Box<Record>,
        change: Option<Change>,
        at: At,
    },
    /// The line of a settled task was written again.
    Moved(String, At),
    /// A task that is not settled was written whole.
    Folded(String, u64),
    Forgotten(Vec<String>),
    Opened(String, Context),
    Pushes(String, Vec<Kept>, u64),
    Nothing,
}

/// Where a line is among the lines of its group.
#[derive(Clone, Copy)]
struct At {
    start: usize,
    length: usize,
}

impl Group {
    /// Whether nothing is to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// How many requests there are.
    pub(super) fn len(&self) -> usize {
        self.effects.len()
    }

    /// Whether something in it is about the same as `ask`.
    pub(super) fn concerns(&self, ask: &Ask) -> bool {
        ask.about().iter().any(|about| self.about.contains(about))
    }

    /// Takes a request, or answers it where it comes to nothing.
    pub(super) fn take(&mut self, command: Command, index: &Index) {
        let Command { ask, reply } = command;
        let about = ask.about();
        match self.plan(ask, index) {
            Ok(effect) => {
                self.about.extend(about);
                self.effects.push((effect, Some(reply)));
            }
            Err(answer) => {
                let _ = reply.send(answer);
            }
        }
    }

    fn plan(&mut self, ask: Ask, index: &Index) -> Result<Effect, Result<Answer, StoreError>> {
        match ask {
            Ask::Create { record, line } => {
                let id = record.task.id.as_str();
                if index.get(id).is_some() || index.damaged.contains_key(id) {
                    return Err(Err(StoreError::Conflict));
                }
                let bytes = self.push(&line);
                Ok(Effect::Created(record, bytes))
            }
            Ask::Append(append) => self.append(*append, index).map_err(Err),
            Ask::Forget(ids) => {
                let there = |id: &String| index.get(id).is_some() || index.damaged.contains_key(id);
                let ids: Vec<String> = ids.into_iter().filter(there).collect();
                if ids.is_empty() {
                    return Err(Ok(Answer::Count(0)));
                }
                for id in &ids {
                    let line = Write::Gone(id).line().map_err(Err)?;
                    self.push(&line);
                }
                Ok(Effect::Forgotten(ids))
            }
            Ask::Claim { id, owner, session } => {
                if let Some(context) = index.context(&id) {
                    return Err(Ok(Answer::Context(context.clone())));
                }
                let line = Write::Context {
                    id: &id,
                    owner: &owner,
                    session: &session,
                };
                let line = line.line().map_err(Err)?;
                self.push(&line);
                Ok(Effect::Opened(id, Context { owner, session }))
            }
            Ask::PutPush(kept) => self.pushes(index, &kept.config.task_id.clone(), |pushes| {
                let line = Write::Push(&kept).line();
                put_push(pushes, *kept);
                Some(line)
            }),
            Ask::DeletePush { task, config } => {
                let done = self.pushes(index, &task, |pushes| {
                    let line = Write::Unpush {
                        id: &task,
                        config: &config,
                    }
                    .line();
                    remove_push(pushes, &config).then_some(line)
                });
                match done {
                    Err(Err(StoreError::Gone)) => Err(Ok(Answer::Count(0))),
                    other => other,
                }
            }
            Ask::Probe => {
                let line = Write::Nothing.line().map_err(Err)?;
                self.push(&line);
                Ok(Effect::Nothing)
            }
            Ask::Announce(_) | Ask::Close => Ok(Effect::Nothing),
        }
    }

    fn append(&mut self, append: Append, index: &Index) -> Result<Effect, StoreError> {
        let Append {
            id,
            revision,
            at_ms,
            change,
            line,
        } = append;
        let live = live(index, &id)?;
        if live.record.revision != revision {
            return Err(StoreError::Conflict);
        }
        if !settles(&change) {
            let bytes = self.push(&line);
            return Ok(Effect::Changed {
                id,
                at_ms,
                change,
                bytes,
            });
        }
        let mut record = live.record.clone();
        record.apply(change.clone(), at_ms);
        let whole = whole(&record, &live.pushes)?;
        // The change too: it mends a line of the whole that is damaged.
        self.push(&line);
        let at = self.push_whole(&whole);
        Ok(Effect::Settled {
            record: Box::new(record),
            change: Some(change),
            at,
        })
    }

    /// Changes the configurations of a task: one line where it is not settled, else the whole of it anew.
    fn pushes(
        &mut self,
        index: &Index,
        id: &str,
        edit: impl FnOnce(&mut Vec<Kept>) -> Option<Result<Vec<u8>, StoreError>>,
    ) -> Result<Effect, Result<Answer, StoreError>> {
        let task = index.get(id).ok_or(Err(StoreError::Gone))?;
        match &task.body {
            Body::Live(live) => {
                let mut pushes = live.pushes.clone();
                let Some(line) = edit(&mut pushes) else {
                    return Err(Ok(Answer::Count(0)));
                };
                let bytes = self.push(&line.map_err(Err)?);
                Ok(Effect::Pushes(id.to_owned(), pushes, bytes))
            }
            Body::Settled(place) => {
                let (record, mut pushes) = settled(index, id, *place).map_err(Err)?;
                if edit(&mut pushes).is_none() {
                    return Err(Ok(Answer::Count(0)));
                }
                let whole = whole(&record, &pushes).map_err(Err)?;
                let at = self.push_whole(&whole);
                Ok(Effect::Settled {
                    record: Box::new(record),
                    change: None,
                    at,
                })
            }
        }
    }

    /// Writes a task whole that is not settled, or not whole in one line yet.
    pub(super) fn fold(&mut self, live: &Live) -> Result<(), StoreError> {
        let line = whole(&live.record, &live.pushes)?;
        let id = live.record.task.id.clone();
        let effect = if live.record.is_settled() {
            Effect::Settled {
                record: Box::new(live.record.clone()),
                change: None,
                at: self.push_whole(&line),
            }
        } else {
            Effect::Folded(id, self.push(&line))
        };
        self.effects.push((effect, None));
        Ok(())
    }

    /// Writes the line of a settled task again. It comes without its line end.
    pub(super) fn copy(&mut self, id: &str, line: &[u8]) {
        let start = self.lines.len();
        self.push(line);
        self.push(b"\n");
        let at = At {
            start,
            length: line.len(),
        };
        self.effects.push((Effect::Moved(id.to_owned(), at), None));
    }

    /// Writes that a task cannot be read.
    pub(super) fn damaged(&mut self, id: &str, why: &str) -> Result<(), StoreError> {
        let line = Write::Damaged { id, why }.line()?;
        self.push(&line);
        self.effects.push((Effect::Nothing, None));
        Ok(())
    }

    fn push(&mut self, line: &[u8]) -> u64 {
        self.lines.extend_from_slice(line);
        line.len() as u64
    }

    fn push_whole(&mut self, line: &[u8]) -> At {
        let start = self.lines.len();
        self.push(line);
        At {
            start,
            length: line.len() - 1,
        }
    }

    /// It could not be written.
    pub(super) fn fail(self, error: &StoreError) {
        for reply in self.effects.into_iter().filter_map(|(_, reply)| reply) {
            let _ = reply.send(Err(error.clone()));
        }
    }

    /// It is kept, from the byte `start` of the file `file` on: applies it to the index, and returns whom to tell what.
    pub(super) fn apply(self, index: &mut Index, file: u64, start: u64) -> Told {
        let mut told = Told::default();
        let place = |at: At| Place {
            file,
            start: start + at.start as u64,
            length: u32::try_from(at.length).unwrap_or(u32::MAX),
        };
        for (effect, reply) in self.effects {
            let answer = effect.apply(index, place, &mut told);
            told.replies.extend(reply.map(|reply| (reply, answer)));
        }
        told
    }
}

impl Effect {
    fn apply(self, index: &mut Index, place: impl Fn(At) -> Place, told: &mut Told) -> Answer {
        match self {
            Self::Created(record, bytes) => {
                let live = Live {
                    record: *record,
                    pushes: Vec::new(),
                };
                index.put_live(live, bytes);
            }
            Self::Changed {
                id,
                at_ms,
                change,
                bytes,
            } => {
                if let Some(live) = index.live(&id) {
                    live.record.apply(change.clone(), at_ms);
                    let revision = live.record.revision;
                    index.changed(&id, bytes);
                    told.news.push((id, revision, change));
                }
            }
            Self::Settled { record, change, at } => {
                index.put_settled(&record, place(at));
                match change {
                    Some(change) => told.news.push((record.task.id, record.revision, change)),
                    // It is its configurations that have changed.
                    None => return Answer::Count(1),
                }
            }
            Self::Moved(id, at) => index.moved(&id, place(at)),
            Self::Folded(id, bytes) => index.needs(&id, bytes),
            Self::Forgotten(ids) => {
                for id in &ids {
                    index.damaged.remove(id);
                    index.remove(id);
                }
                let count = ids.len();
                told.gone.extend(ids);
                return Answer::Count(count);
            }
            Self::Opened(id, context) => {
                return Answer::Context(index.claim(&id, &context.owner, &context.session));
            }
            Self::Pushes(id, pushes, bytes) => {
                if let Some(live) = index.live(&id) {
                    live.pushes = pushes;
                }
                index.changed(&id, bytes);
                return Answer::Count(1);
            }
            Self::Nothing => {}
        }
        Answer::Done
    }
}

/// Who is to be told what, once the index has it.
#[derive(Default)]
pub(super) struct Told {
    news: Vec<(String, u64, Change)>,
    gone: Vec<String>,
    replies: Vec<(Reply, Answer)>,
}

impl Told {
    pub(super) fn tell(self, hub: &Hub) {
        for (id, revision, change) in &self.news {
            hub.publish(id, *revision, change);
        }
        for id in &self.gone {
            hub.forget(id);
        }
        for (reply, answer) in self.replies {
            let _ = reply.send(Ok(answer));
        }
    }
}

fn live<'a>(index: &'a Index, id: &str) -> Result<&'a Live, StoreError> {
    match index.get(id).map(|task| &task.body) {
        Some(Body::Live(live)) => Ok(live),
        Some(Body::Settled(_)) => Err(StoreError::Settled),
        None => Err(index.unreadable(id).unwrap_or(StoreError::Gone)),
    }
}

fn settled(index: &Index, id: &str, place: Place) -> Result<(Record, Vec<Kept>), StoreError> {
    let file = index.files.get(&place.file).map(Arc::clone);
    let file = file.ok_or_else(|| super::index::unreadable(id, "its file is gone"))?;
    read_whole(&file, place).map_err(|why| super::index::unreadable(id, &why))
}

fn whole(record: &Record, pushes: &[Kept]) -> Result<Vec<u8>, StoreError> {
    Write::Whole { record, pushes }.line()
}

fn settles(change: &Change) -> bool {
    matches!(change, Change::Status(status) if TaskState::is_terminal(&status.state))
}
