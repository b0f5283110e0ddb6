// SPDX-License-Identifier: MIT
//! Lines of samples: what the formats of text have in common.

use std::fmt::Display;
use std::io::Write;
use std::time::{Duration, SystemTime};

use super::names::{is_plain, quote, quoted, Escaping, LabelNames};

/// What was printed, and what the next samples begin with.
pub struct Lines {
    pub out: Vec<u8>,
    labels: LabelNames,
    /// Between two labels.
    comma: &'static str,
    /// Of the metric.
    name: String,
    /// The name needs no quotes.
    is_plain: bool,
}

impl Lines {
    pub fn new(escaping: Escaping, comma: &'static str) -> Self {
        Self {
            out: Vec::new(),
            labels: LabelNames::new(escaping, true),
            comma,
            name: String::new(),
            is_plain: true,
        }
    }

    /// A metric begins, to whose labels the format adds one.
    pub fn begin(&mut self, name: String, added: Option<&str>) {
        self.is_plain = is_plain(&name, true);
        self.name = name;
        self.labels.begin(added);
    }

    /// Append a line about the metric. `quotes`: quotes in the text are escaped, too.
    pub fn about(&mut self, what: &str, text: &str, quotes: bool) {
        let name = if self.is_plain {
            self.name.clone()
        } else {
            quoted(&self.name)
        };
        let _ = write!(self.out, "# {what} {name} ");
        if quotes {
            quote(&mut self.out, text);
        } else {
            let text = text.replace('\\', "\\\\").replace('\n', "\\n");
            self.out.extend_from_slice(text.as_bytes());
        }
        self.out.push(b'\n');
    }

    /// Append a sample, but not the end of the line. `more` is a label that the format adds.
    pub fn sample(
        &mut self,
        suffix: &str,
        labels: &[(&str, &str)],
        more: Option<(&str, &str)>,
        value: impl Display,
    ) {
        let mut before = "{";
        if self.is_plain {
            self.out.extend_from_slice(self.name.as_bytes());
            self.out.extend_from_slice(suffix.as_bytes());
        } else {
            self.out.extend_from_slice(b"{\"");
            quote(&mut self.out, &self.name);
            self.out.extend_from_slice(suffix.as_bytes());
            self.out.push(b'"');
            before = self.comma;
        }
        let names = self.labels.of(labels).iter().map(|(_, text)| text.as_str());
        let values = labels.iter().map(|(_, value)| *value);
        for (name, value) in names.zip(values).chain(more) {
            self.out.extend_from_slice(before.as_bytes());
            label(&mut self.out, name, value);
            before = self.comma;
        }
        if before != "{" {
            self.out.push(b'}');
        }
        let _ = write!(self.out, " {value}");
    }

    pub fn end_line(&mut self) {
        self.out.push(b'\n');
    }
}

/// Append a label.
pub fn label(to: &mut Vec<u8>, name: &str, value: &str) {
    to.extend_from_slice(name.as_bytes());
    to.extend_from_slice(b"=\"");
    quote(to, value);
    to.push(b'"');
}

/// A time in seconds since 1970, as it is printed.
pub struct Seconds(pub SystemTime);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let since = self.0.duration_since(SystemTime::UNIX_EPOCH);
        let since = since.unwrap_or(Duration::ZERO);
        write!(f, "{}.{:03}", since.as_secs(), since.subsec_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_three_digits_behind_the_point() {
        for (ms, text) in [
            (0, "0.000"),
            (1_005, "1.005"),
            (1_700_000_000_050, "1700000000.050"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
            assert_eq!(Seconds(time).to_string(), text);
        }
    }
}
