//! Recorded responses of real servers, byte for byte, with the position of each event.

use std::{fs, ops::Range, path::Path};

use serde_json::Value;

use crate::cuts::cut::{Cut, CutPoint};

/// The directories of `recordings/`, each with its protocol.
pub(crate) const NAMES: [(&str, Version, Binding); 4] = [
    ("v0_3-json-rpc", Version::V0_3, Binding::JsonRpc),
    ("v0_3-http-json", Version::V0_3, Binding::HttpJson),
    ("v1_0-json-rpc", Version::V1_0, Binding::JsonRpc),
    ("v1_0-http-json", Version::V1_0, Binding::HttpJson),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V0_3,
    V1_0,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    JsonRpc,
    HttpJson,
}

/// A stream, a reply, and the task after each event of the stream.
pub(crate) struct Recording {
    pub(crate) name: &'static str,
    pub(crate) version: Version,
    pub(crate) binding: Binding,
    /// The chunked response to a streamed message.
    pub(crate) stream: Answer,
    /// The same stream from a server that ends the body by closing the connection.
    pub(crate) without_framing: Answer,
    /// The response to a blocking message.
    pub(crate) reply: Vec<u8>,
    /// The task in the body of an answer, after each event.
    pub(crate) tasks: Vec<Value>,
    pub(crate) task_id: String,
}

/// A response with an event stream.
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
    /// The byte range of each event, framing included.
    places: Vec<Range<usize>>,
    /// Each event with its final blank line.
    events: Vec<Vec<u8>>,
}

impl Recording {
    pub(crate) fn load((name, version, binding): &(&'static str, Version, Binding)) -> Self {
        let home = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .join("tests/cuts/recordings")
            .join(name);
        let tasks = fs::read_to_string(home.join("tasks.jsonl")).unwrap();
        let tasks: Vec<Value> = tasks
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let stream = Answer::read(fs::read(home.join("stream.http")).unwrap());
        assert_eq!(stream.len(), tasks.len(), "{name}: a task for each event");
        let task_id = tasks[0].pointer("/result/id").or(tasks[0].get("id"));
        Self {
            name,
            version: *version,
            binding: *binding,
            task_id: task_id.unwrap().as_str().unwrap().to_owned(),
            without_framing: stream.without_framing(),
            stream,
            reply: fs::read(home.join("reply.http")).unwrap(),
            tasks,
        }
    }

    /// Returns the bytes of the response that a cut is in.
    pub(crate) fn bytes(&self, point: CutPoint) -> &[u8] {
        match point {
            CutPoint::Stream | CutPoint::Watched => &self.stream.bytes,
            CutPoint::Unframed => &self.without_framing.bytes,
            CutPoint::Reply => &self.reply,
        }
    }

    /// Returns the stream that a cut is in, unless it is in a reply.
    pub(crate) fn answer(&self, point: CutPoint) -> Option<&Answer> {
        match point {
            CutPoint::Stream | CutPoint::Watched => Some(&self.stream),
            CutPoint::Unframed => Some(&self.without_framing),
            CutPoint::Reply => None,
        }
    }

    /// Returns the bytes around a cut, with `✂` at the cut.
    pub(crate) fn context(&self, cut: &Cut) -> String {
        const SHOWN: usize = 40;
        let bytes = self.bytes(cut.point);
        let before = &bytes[cut.offset.saturating_sub(SHOWN)..cut.offset];
        let after = &bytes[cut.offset..bytes.len().min(cut.offset + SHOWN)];
        format!("{}✂{}", before.escape_ascii(), after.escape_ascii())
    }
}

impl Answer {
    /// Finds the events of a chunked response.
    pub(crate) fn read(bytes: Vec<u8>) -> Self {
        let head = head_length(&bytes);
        let mut at = head;
        let mut body = Vec::new();
        // The offset of each byte of the body in the response.
        let mut offsets = Vec::new();
        loop {
            let line = at + find(&bytes[at..], b"\r\n").unwrap();
            let size = usize::from_str_radix(str::from_utf8(&bytes[at..line]).unwrap(), 16);
            let chunk = line + 2..line + 2 + size.unwrap();
            if chunk.is_empty() {
                break;
            }
            at = chunk.end + 2;
            body.extend_from_slice(&bytes[chunk.clone()]);
            offsets.extend(chunk);
        }
        let mut places = Vec::new();
        let mut events = Vec::new();
        let mut begin = 0;
        while let Some(end) = event_end(&body[begin..]).map(|length| begin + length) {
            places.push(offsets[begin]..offsets[end - 1] + 1);
            events.push(body[begin..end].to_vec());
            begin = end;
        }
        assert_eq!(begin, body.len(), "the last event is whole");
        Self {
            bytes,
            places,
            events,
        }
    }

    fn without_framing(&self) -> Self {
        let mut bytes = self
            .head()
            .replace("Transfer-Encoding: chunked", "Connection: close");
        bytes = bytes.replace("onnection: keep-alive", "onnection: close");
        let mut bytes = bytes.into_bytes();
        let places = self.events.iter().map(|event| {
            let begin = bytes.len();
            bytes.extend_from_slice(event);
            begin..bytes.len()
        });
        Self {
            places: places.collect(),
            events: self.events.clone(),
            bytes,
        }
    }

    /// Returns the number of events.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns the number of complete events in the first `offset` bytes.
    pub(crate) fn arrived(&self, offset: usize) -> usize {
        self.places
            .iter()
            .filter(|place| place.end <= offset)
            .count()
    }

    /// Returns the number of events that begin in the first `offset` bytes.
    pub(crate) fn started(&self, offset: usize) -> usize {
        self.places
            .iter()
            .filter(|place| place.start < offset)
            .count()
    }

    /// Returns the recorded head, which fits another subscription too.
    pub(crate) fn head(&self) -> &str {
        str::from_utf8(&self.bytes[..head_length(&self.bytes)]).unwrap()
    }

    /// Returns the recorded events from number `first` on.
    pub(crate) fn events_from(&self, first: usize) -> &[Vec<u8>] {
        &self.events[first.min(self.events.len())..]
    }
}

/// Returns the length of a response head, including its blank line.
pub(crate) fn head_length(bytes: &[u8]) -> usize {
    find(bytes, b"\r\n\r\n").unwrap() + 4
}

/// Returns the length of the first event, including its blank line.
fn event_end(body: &[u8]) -> Option<usize> {
    [b"\n\n".as_slice(), b"\r\n\r\n"]
        .iter()
        .filter_map(|blank| Some(find(body, blank)? + blank.len()))
        .min()
}

pub(crate) fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
