// SPDX-License-Identifier: MIT
//! Names of metrics and labels as formats can carry them: those that differ stay apart.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{Metric, OVERFLOWS, UP};
use crate::model::Kind;

/// What becomes of a name that has other characters than letters, digits and underscores, as
/// prometheus/common does it. Other names stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escaping {
    /// It stays as it is, in quotes.
    Utf8,
    /// An underscore stands for each such character.
    Underscores,
    /// A dot becomes `_dot_`; an underscore and each other such character become two underscores.
    Dots,
    /// `U__` comes first, each such character becomes its number, as `_2e_`, and an underscore two.
    Values,
}

const SCHEMES: [(Escaping, &str); 4] = [
    (Escaping::Utf8, "allow-utf-8"),
    (Escaping::Underscores, "underscores"),
    (Escaping::Dots, "dots"),
    (Escaping::Values, "values"),
];

impl Escaping {
    /// What a header calls so.
    pub fn of(text: &str) -> Option<Self> {
        let found = SCHEMES.iter().find(|(_, name)| *name == text);
        found.map(|(escaping, _)| *escaping)
    }

    pub fn name(self) -> &'static str {
        let found = SCHEMES.iter().find(|(escaping, _)| *escaping == self);
        found.map_or("", |(_, name)| name)
    }

    /// A name, which is not to be empty. Labels have no colons.
    pub fn escaped(self, name: &str, colons: bool) -> String {
        if name.is_empty() {
            return "_".to_string();
        }
        if self == Self::Utf8 || is_plain(name, colons) {
            return name.to_string();
        }
        let mut text = String::new();
        if self == Self::Values {
            text.push_str("U__");
        }
        for (i, c) in name.char_indices() {
            match (self, c) {
                (Self::Dots, '.') => text.push_str("_dot_"),
                (Self::Dots | Self::Values, '_') => text.push_str("__"),
                _ if fits(i, c, colons) => text.push(c),
                (Self::Dots, _) => text.push_str("__"),
                (Self::Values, _) => text.push_str(&format!("_{:x}_", u32::from(c))),
                _ => text.push('_'),
            }
        }
        text
    }
}

fn fits(at: usize, c: char, colons: bool) -> bool {
    c == '_' || c.is_ascii_alphabetic() || colons && c == ':' || at > 0 && c.is_ascii_digit()
}

/// Whether all formats have the name as it is.
pub fn is_plain(name: &str, colons: bool) -> bool {
    !name.is_empty() && name.char_indices().all(|(i, c)| fits(i, c, colons))
}

/// Append a text as it stands within quotes.
pub fn quote(to: &mut Vec<u8>, text: &str) {
    let mut from = 0;
    for (i, b) in text.bytes().enumerate() {
        let escape = match b {
            b'\n' => b"\\n",
            b'\\' => b"\\\\",
            b'"' => b"\\\"",
            _ => continue,
        };
        to.extend_from_slice(&text.as_bytes()[from..i]);
        to.extend_from_slice(escape);
        from = i + 1;
    }
    to.extend_from_slice(&text.as_bytes()[from..]);
}

/// What the samples of a metric have behind its name, in one of the formats.
fn suffixes(metric: &Metric<'_>) -> &'static [&'static str] {
    match metric.kind {
        Kind::Histogram if metric.is_summary => &["", "_sum", "_count", "_created"],
        Kind::Histogram => &["", "_bucket", "_sum", "_count", "_created"],
        _ => &[""],
    }
}

/// The names of an answer. No two metrics have the same. All formats give the same ones.
pub struct Names {
    escaping: Escaping,
    taken: HashSet<String>,
    /// Of metrics that were announced, and not yet printed.
    announced: VecDeque<String>,
    /// What is taken of metrics that have another name than their samples.
    bases: HashSet<String>,
}

impl Names {
    pub fn new(escaping: Escaping) -> Self {
        let own = [OVERFLOWS.name, UP.name, "percpu_family_overflows"];
        Self {
            escaping,
            taken: own.map(str::to_string).into(),
            announced: VecDeque::new(),
            bases: HashSet::new(),
        }
    }

    /// Name a metric that is printed later.
    pub fn announce(&mut self, metric: &Metric<'_>) {
        let name = self.escaping.escaped(metric.name, true);
        let name = self.claim(name, suffixes(metric));
        self.announced.push_back(name);
    }

    /// The name of a metric that is printed now.
    pub fn of(&mut self, metric: &Metric<'_>) -> String {
        let announced = (!metric.is_own).then(|| self.announced.pop_front());
        let escaped = || self.escaping.escaped(metric.name, true);
        announced.flatten().unwrap_or_else(escaped)
    }

    /// Take a name for a metric whose samples have these suffixes behind it, if no metric that was
    /// announced has one of these names.
    pub fn take_base(&mut self, base: &str, suffixes: &[&str]) -> bool {
        let texts = || suffixes.iter().map(|suffix| format!("{base}{suffix}"));
        let is_free = !texts().any(|text| self.taken.contains(&text) || self.bases.contains(&text));
        if is_free {
            self.bases.extend(texts());
        }
        is_free
    }

    fn take(&mut self, name: &str, suffixes: &[&str]) -> bool {
        let texts = || suffixes.iter().map(|suffix| format!("{name}{suffix}"));
        let is_free = !texts().any(|text| self.taken.contains(&text));
        if is_free {
            self.taken.extend(texts());
        }
        is_free
    }

    /// Take the first name that is free: that one, or with underscores behind it.
    fn claim(&mut self, mut name: String, suffixes: &[&str]) -> String {
        while !self.take(&name, suffixes) {
            name.push('_');
        }
        name
    }
}

/// The names of a metric's labels. Most rows have those of the row before.
pub struct LabelNames {
    escaping: Escaping,
    /// Names that need quotes have them.
    quotes: bool,
    /// Of the row before: as the program gave them, and as they are printed.
    row: Vec<(String, String)>,
    /// Of all rows: by the name, and how many labels of the row before it have the same.
    known: HashMap<(String, usize), String>,
    taken: HashSet<String>,
}

impl LabelNames {
    pub fn new(escaping: Escaping, quotes: bool) -> Self {
        Self {
            escaping,
            quotes,
            row: Vec::new(),
            known: HashMap::new(),
            taken: HashSet::new(),
        }
    }

    /// A metric begins, to whose labels the format adds one.
    pub fn begin(&mut self, added: Option<&str>) {
        self.row.clear();
        self.known.clear();
        self.taken.clear();
        let reserved = ["__name__"].into_iter().chain(added);
        self.taken.extend(reserved.map(str::to_string));
    }

    /// The names as they are printed: as many as there are labels.
    pub fn of(&mut self, labels: &[(&str, &str)]) -> &[(String, String)] {
        let names = labels.iter().map(|(name, _)| *name);
        if !names.eq(self.row.iter().map(|(name, _)| name.as_str())) {
            let names: Vec<_> = labels.iter().map(|(name, _)| *name).collect();
            self.row = (0..names.len())
                .map(|i| (names[i].to_string(), self.name(&names[..i], names[i])))
                .collect();
        }
        &self.row
    }

    fn name(&mut self, before: &[&str], name: &str) -> String {
        let same = before.iter().filter(|other| **other == name).count();
        let key = (name.to_string(), same);
        if let Some(text) = self.known.get(&key) {
            return text.clone();
        }
        let mut text = self.escaping.escaped(name, false);
        while !self.taken.insert(text.clone()) {
            text.push('_');
        }
        if self.quotes && !is_plain(&text, false) {
            text = quoted(&text);
        }
        self.known.insert(key, text.clone());
        text
    }
}

/// A name within quotes.
pub fn quoted(name: &str) -> String {
    let mut text = vec![b'"'];
    quote(&mut text, name);
    text.push(b'"');
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What prometheus/common makes of them.
    #[test]
    fn names_are_escaped() {
        for (name, underscores, dots, values) in [
            ("a_total", "a_total", "a_total", "a_total"),
            ("a:b", "a:b", "a:b", "a:b"),
            ("9a_b", "_a_b", "__a__b", "U___39_a__b"),
            ("a9", "a9", "a9", "a9"),
            (
                "http.requests",
                "http_requests",
                "http_dot_requests",
                "U__http_2e_requests",
            ),
            ("http.s_x", "http_s_x", "http_dot_s__x", "U__http_2e_s__x"),
            ("größe", "gr__e", "gr____e", "U__gr_f6__df_e"),
            ("a\nb", "a_b", "a__b", "U__a_a_b"),
            ("漢.字", "___", "___dot___", "U___6f22__2e__5b57_"),
        ] {
            assert_eq!(Escaping::Underscores.escaped(name, true), underscores);
            assert_eq!(Escaping::Dots.escaped(name, true), dots);
            assert_eq!(Escaping::Values.escaped(name, true), values);
            assert_eq!(Escaping::Utf8.escaped(name, true), name);
        }
        assert_eq!(Escaping::Underscores.escaped("a:b", false), "a_b");
        assert_eq!(Escaping::Values.escaped("a:b", false), "U__a_3a_b");
    }

    #[test]
    fn names_stay_apart() {
        let mut names = Names::new(Escaping::Underscores);
        assert_eq!(names.claim("a_b".into(), &[""]), "a_b");
        assert_eq!(names.claim("a_b".into(), &[""]), "a_b_");
        assert_eq!(names.claim("h_sum".into(), &[""]), "h_sum");
        assert_eq!(names.claim("h".into(), &["", "_sum"]), "h_");
        assert_eq!(names.claim("h__sum".into(), &[""]), "h__sum_");
        assert_eq!(names.claim(UP.name.into(), &[""]), "percpu_segment_up_");
    }

    #[test]
    fn labels_stay_apart() {
        let mut labels = LabelNames::new(Escaping::Underscores, true);
        let mut print = |names: &[&str]| -> Vec<String> {
            let row: Vec<_> = names.iter().map(|name| (*name, "")).collect();
            labels.begin(Some("le"));
            let texts = labels.of(&row).iter().map(|(_, text)| text.clone());
            let texts: Vec<_> = texts.collect();
            // The next row has the same names, one of a row with fewer labels, too.
            let again: Vec<_> = labels.of(&row).iter().map(|(_, t)| t.clone()).collect();
            let last = labels.of(&row[1..]).last().map(|(_, text)| text.clone());
            assert_eq!((&again, last.as_ref()), (&texts, texts.last()));
            texts
        };
        assert_eq!(
            print(&["segment", "a.b", "a_b"]),
            ["segment", "a_b", "a_b_"]
        );
        assert_eq!(print(&["x", "le", "__name__"]), ["x", "le_", "__name___"]);
        // What one metric may have, the next one may not.
        for (added, text) in [(None, "le"), (Some("le"), "le_"), (None, "le")] {
            labels.begin(added);
            assert_eq!(labels.of(&[("le", "")])[0].1, text);
        }
        let mut labels = LabelNames::new(Escaping::Utf8, true);
        let row = [("segment", ""), ("segment", ""), ("a.\"b", "")];
        let texts = labels.of(&row).iter().map(|(_, text)| text.as_str());
        assert_eq!(
            texts.collect::<Vec<_>>(),
            ["segment", "segment_", r#""a.\"b""#]
        );
        let row = [("x", ""), ("y", ""), ("a.\"b", "")];
        let texts = labels.of(&row).iter().map(|(_, text)| text.as_str());
        assert_eq!(texts.collect::<Vec<_>>(), ["x", "y", r#""a.\"b""#]);
    }
}
