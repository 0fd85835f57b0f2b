//! A text as programs show it, for finding secrets that hidden characters interrupt.

use crate::visible::{self, Kind, Step};

/// Returns the first step of a text, such as a character or a control sequence.
type StepFn = fn(&str) -> Option<Step>;

/// The visible characters of a text, and the position of each byte in the text.
pub(super) struct VisibleText {
    pub(super) text: String,
    pub(super) places: Vec<usize>,
    /// The length in bytes of the visible text before what may become a longer control sequence.
    pub(super) certain: usize,
}

impl VisibleText {
    /// Returns what programs show of a text: those that know control sequences, and those that only remove control
    /// characters. Empty if both show the text itself. With `joins_space`, a run of white space counts as one space, as in
    /// a text that a program has joined into one line.
    pub(super) fn all(text: &str, joins_space: bool) -> impl Iterator<Item = Self> {
        let joins_space = joins_space && text.contains(char::is_whitespace);
        let is_plain = !joins_space && visible::is_all_visible(text);
        let may_have_sequences = !is_plain
            && text.contains([
                '\u{1b}', '\u{90}', '\u{98}', '\u{9b}', '\u{9d}', '\u{9e}', '\u{9f}',
            ]);
        let steps = [
            (!is_plain).then_some(visible::character as StepFn),
            may_have_sequences.then_some(visible::step as StepFn),
        ];
        let steps = steps.into_iter().flatten();
        steps.map(move |step| Self::new(text, joins_space, step))
    }

    fn new(text: &str, joins_space: bool, step: StepFn) -> Self {
        let mut shown = Self {
            text: String::with_capacity(text.len()),
            places: Vec::with_capacity(text.len()),
            certain: 0,
        };
        let (mut at, mut certain) = (0, None);
        while let Some(Step {
            kind,
            len,
            is_unfinished,
        }) = step(&text[at..])
        {
            if is_unfinished {
                certain.get_or_insert(shown.text.len());
            }
            if kind != Kind::Hidden {
                shown.push(&text[at..at + len], at, joins_space);
            }
            at += len;
        }
        shown.certain = certain.unwrap_or(shown.text.len());
        shown
    }

    fn push(&mut self, piece: &str, at: usize, joins_space: bool) {
        if joins_space && piece.contains(char::is_whitespace) {
            if !self.text.ends_with(' ') {
                self.text.push(' ');
                self.places.push(at);
            }
            return;
        }
        self.text.push_str(piece);
        self.places.extend(at..at + piece.len());
    }
}
