//! The lines of a server's log. They look like those of `tracing_subscriber`, which formats each part of a field on its own: for a
//! short request, that would cost as much as its answer.

use std::fmt::{self, Debug};
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing_subscriber::field::{RecordFields, VisitFmt as _, VisitOutput as _};
use tracing_subscriber::fmt::format::{DefaultFields, DefaultVisitor, Writer};
use tracing_subscriber::fmt::{FormatFields, time::FormatTime};

/// The time of a line.
#[derive(Debug)]
pub(crate) struct LineTime;

impl FormatTime for LineTime {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        write_time(line, SystemTime::now())
    }
}

/// Writes a time; one before 1970, which `humantime` cannot express, as the begin of 1970.
fn write_time(line: &mut impl fmt::Write, time: SystemTime) -> fmt::Result {
    let time = time.max(SystemTime::UNIX_EPOCH);
    write!(line, "{}", humantime::format_rfc3339_micros(time))
}

/// The fields of a line.
#[derive(Debug)]
pub(crate) struct LineFields;

impl<'line> FormatFields<'line> for LineFields {
    fn format_fields<R: RecordFields>(&self, line: Writer<'line>, fields: R) -> fmt::Result {
        if line.has_ansi_escapes() {
            return DefaultFields::new().format_fields(line, fields);
        }
        let mut line = OneLine(line);
        let mut plain = PlainFields {
            default: DefaultVisitor::new(Writer::new(&mut line), true),
            is_first: true,
            result: Ok(()),
        };
        fields.record(&mut plain);
        plain.result.and(plain.default.finish())
    }
}

/// Escapes line breaks: what follows one in a value of a client would look like a line of the server.
struct OneLine<'line>(Writer<'line>);

impl fmt::Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Almost every text, and most have a few characters.
        if !text.bytes().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return self.0.write_str(text);
        }
        for part in text.split_inclusive(['\n', '\r']) {
            match (part.strip_suffix('\n'), part.strip_suffix('\r')) {
                (Some(before), _) => write!(self.0, "{before}\\n")?,
                (_, Some(before)) => write!(self.0, "{before}\\r")?,
                _ => self.0.write_str(part)?,
            }
        }
        Ok(())
    }

    fn write_char(&mut self, c: char) -> fmt::Result {
        match c {
            '\n' => self.0.write_str("\\n"),
            '\r' => self.0.write_str("\\r"),
            c => self.0.write_char(c),
        }
    }
}

/// Formats the fields after the first one that need no escapes. All others are left to `default`.
struct PlainFields<'line> {
    default: DefaultVisitor<'line>,
    is_first: bool,
    result: fmt::Result,
}

impl PlainFields<'_> {
    fn is_plain(&self, field: &Field) -> bool {
        let name = field.name();
        !self.is_first && name != "message" && !name.starts_with("log.") && !name.starts_with("r#")
    }

    fn add(&mut self, field: &Field, value: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result) {
        let line = self.default.writer();
        let name = field.name();
        let written = line
            .write_char(' ')
            .and_then(|()| line.write_str(name))
            .and_then(|()| line.write_char('='))
            .and_then(|()| value(line));
        self.result = self.result.and(written);
    }

    fn add_number(&mut self, field: &Field, number: impl fmt::Display) {
        self.add(field, |line| write!(line, "{number}"));
    }
}

impl Visit for PlainFields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let needs_escape = |byte: &u8| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\');
        if self.is_plain(field) && !value.as_bytes().iter().any(needs_escape) {
            self.add(field, |line| {
                line.write_char('"')?;
                line.write_str(value)?;
                line.write_char('"')
            });
        } else {
            self.is_first = false;
            self.default.record_str(field, value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match self.is_plain(field) {
            true => self.add_number(field, value),
            false => self.record_debug(field, &value),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        match self.is_plain(field) {
            true => self.add_number(field, value),
            false => self.record_debug(field, &value),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.is_first = false;
        self.default.record_error(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.is_first = false;
        self.default.record_debug(field, value);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use parking_lot::Mutex;
    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Returns the lines of both formats, without their times, which have microseconds.
    fn lines(ansi: bool, log: impl Fn()) -> [Vec<String>; 2] {
        let (default, ours) = (
            Arc::<Mutex<Vec<u8>>>::default(),
            Arc::<Mutex<Vec<u8>>>::default(),
        );
        let writer = |lines: &Arc<Mutex<Vec<u8>>>| {
            let lines = Arc::clone(lines);
            move || Lines(Arc::clone(&lines))
        };
        let layer = fmt::layer().with_target(false).with_ansi(ansi);
        let layer = layer.with_writer(writer(&default));
        let other = fmt::layer().with_target(false).with_ansi(ansi);
        let other = other.fmt_fields(LineFields).with_timer(LineTime);
        let other = other.with_writer(writer(&ours));
        let subscriber = tracing_subscriber::registry().with(layer).with(other);
        tracing::subscriber::with_default(subscriber, log);
        [default, ours].map(|lines| {
            let text = String::from_utf8(lines.lock().clone()).unwrap();
            let without_time = |line: &str| {
                let (time, rest) = line.split_once('Z').unwrap();
                let form = time.replace(|c: char| c.is_ascii_digit(), "0");
                assert!(form.ends_with("0000-00-00T00:00:00.000000"), "{line}");
                rest.to_owned()
            };
            text.lines().map(without_time).collect()
        })
    }

    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_those_of_the_default_format() {
        let failure = std::io::Error::other("no \u{1b}[31mroom");
        let log = || {
            let none: Option<&str> = None;
            let (status, more) = (200_u16, -7_i64);
            tracing::info!(
                client = "ann",
                task = none,
                status,
                more,
                on = true,
                "request"
            );
            tracing::warn!(
                client = "a \"b\" \\ \u{1b}[31m ü\n",
                part = 1.5,
                "text {}",
                7
            );
            tracing::error!(%failure, first = 1, "failed");
            tracing::info!(count = 3, name = "without a message");
            tracing::info!(name = "a", r#type = "b", name.of = "c", debug = ?Some("d"));
            tracing::error!(error = &failure as &dyn std::error::Error, "with a source");
        };
        for ansi in [false, true] {
            let [default, ours] = lines(ansi, log);
            assert_eq!(default.len(), 6);
            assert_eq!(ours, default);
        }
    }

    #[test]
    fn value_with_line_breaks_is_no_further_line() {
        let forged = "x\r\n2026-11-27T03:00:00.000000Z ERROR forged";
        let error = std::io::Error::other(forged);
        let [default, ours] = lines(false, || {
            tracing::info!(id = %forged, "{forged}");
            tracing::warn!(error = &error as &dyn std::error::Error, "failed");
        });
        assert_eq!((default.len(), ours.len()), (5, 2), "{ours:?}");
        assert!(ours[0].contains("id=x\\r\\n2026"), "{ours:?}");
    }

    #[test]
    fn time_has_microseconds_and_a_clock_before_1970_stops_no_line() {
        let second = Duration::from_secs(1);
        for (time, expected) in [
            (
                SystemTime::UNIX_EPOCH + second + Duration::from_micros(12),
                "1970-01-01T00:00:01.000012Z",
            ),
            (
                SystemTime::UNIX_EPOCH - second,
                "1970-01-01T00:00:00.000000Z",
            ),
        ] {
            let mut text = String::new();
            write_time(&mut text, time).unwrap();
            assert_eq!(text, expected);
        }
    }
}
