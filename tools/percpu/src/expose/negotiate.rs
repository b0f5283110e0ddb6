// SPDX-License-Identifier: MIT
//! Which format a client asks for, by the headers Accept and Accept-Encoding.

use super::names::Escaping;

/// A format, and what its names are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text, version 0.0.4: what all read.
    Text,
    /// Text, version 1.0.0.
    Text1(Escaping),
    /// OpenMetrics, version 0.0.1: as 1.0.0, but for names.
    OpenMetrics0,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics(Escaping),
    /// Messages of io.prometheus.client.
    Protobuf(Escaping),
}

/// A part of a header between commas: "type/subtype;name=value;q=0.5".
struct Clause<'a> {
    name: String,
    parameters: Vec<(String, &'a str)>,
    q: f64,
}

/// Cut a text at letters that are not within quotes.
fn cut(text: &str, at: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    let ends = move |c: char| {
        let is_end = c == at && !quoted;
        quoted ^= c == '"' && !escaped;
        escaped = quoted && c == '\\' && !escaped;
        is_end
    };
    text.split(ends).map(str::trim)
}

impl<'a> Clause<'a> {
    /// `None` if the client does not want it, or it makes no sense.
    fn new(text: &'a str) -> Option<Self> {
        let mut parts = cut(text, ';');
        let name = parts.next().filter(|name| !name.is_empty())?;
        let parameters: Vec<_> = parts
            .filter_map(|part| part.split_once('='))
            .map(|(name, value)| {
                let value = value.trim().trim_matches('"');
                (name.trim().to_ascii_lowercase(), value)
            })
            .collect();
        let mut clause = Self {
            name: name.to_ascii_lowercase(),
            parameters,
            q: 1.0,
        };
        if let Some(q) = clause.parameter("q") {
            clause.q = q.parse().ok().filter(|q| (0.0..=1.0).contains(q))?;
        }
        Some(clause)
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        let found = self.parameters.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| *value)
    }

    /// How exactly it says what the client wants.
    fn stars(&self) -> usize {
        self.name.matches('*').count()
    }

    /// The format that it asks for, if we have it.
    fn form(&self) -> Option<Form> {
        let escaping = self.parameter("escaping").and_then(Escaping::of);
        let escaping = escaping.unwrap_or(Escaping::Underscores);
        match (self.name.as_str(), self.parameter("version")) {
            ("*/*" | "text/*", _) | ("text/plain", None | Some("0.0.4")) => Some(Form::Text),
            ("text/plain", Some("1.0.0")) => Some(Form::Text1(escaping)),
            ("application/openmetrics-text", None | Some("0.0.1")) => Some(Form::OpenMetrics0),
            ("application/openmetrics-text", Some("1.0.0")) | ("application/*", _) => {
                Some(Form::OpenMetrics(escaping))
            }
            ("application/vnd.google.protobuf", _) => {
                let is = |name, value| self.parameter(name) == Some(value);
                let known = is("proto", "io.prometheus.client.MetricFamily");
                (known && is("encoding", "delimited")).then_some(Form::Protobuf(escaping))
            }
            _ => None,
        }
    }
}

/// The clauses of all headers of a name, and those that are refused left out.
fn clauses<'a>(headers: impl Iterator<Item = &'a str>) -> impl Iterator<Item = Clause<'a>> {
    headers
        .flat_map(|header| cut(header, ','))
        .filter_map(Clause::new)
}

/// The format that a client likes best. If we have none of those it asks for: text 0.0.4.
pub fn form<'a>(accept: impl Iterator<Item = &'a str>) -> Form {
    let mut wanted: Vec<_> = clauses(accept).filter(|c| c.q > 0.0).collect();
    // Those that are alike stay in their order.
    wanted.sort_by(|a, b| b.q.total_cmp(&a.q).then(a.stars().cmp(&b.stars())));
    let form = wanted.iter().find_map(Clause::form);
    form.unwrap_or(Form::Text)
}

/// Whether the client likes an answer by gzip at least as much as one that is not compressed.
pub fn gzip<'a>(accept_encoding: impl Iterator<Item = &'a str>) -> bool {
    let (mut gzip, mut plain, mut other) = (None, None, None);
    for clause in clauses(accept_encoding) {
        match clause.name.as_str() {
            "gzip" | "x-gzip" => gzip = Some(clause.q),
            "identity" => plain = Some(clause.q),
            "*" => other = Some(clause.q),
            _ => {}
        }
    }
    let gzip = gzip.or(other).unwrap_or(0.0);
    gzip > 0.0 && gzip >= plain.unwrap_or(0.0)
}

impl Form {
    /// The header Content-Type of an answer.
    pub fn content_type(self) -> String {
        let (kind, escaping) = match self {
            Self::Text => ("text/plain; version=0.0.4; charset=utf-8", None),
            Self::Text1(e) => ("text/plain; version=1.0.0; charset=utf-8", Some(e)),
            Self::OpenMetrics0 => (
                "application/openmetrics-text; version=0.0.1; charset=utf-8",
                None,
            ),
            Self::OpenMetrics(e) => (
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                Some(e),
            ),
            Self::Protobuf(e) => (
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited",
                Some(e),
            ),
        };
        match escaping {
            Some(e) => format!("{kind}; escaping={}", e.name()),
            None => kind.to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
