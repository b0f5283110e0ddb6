// SPDX-License-Identifier: MIT
//! Where lines are printed: how wide it is, and what it can show.

use std::borrow::Cow;
use std::io::IsTerminal;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What stdout is.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    pub is_one: bool,
    /// Its columns; `None`: lines are not cut.
    pub width: Option<usize>,
    pub utf8: bool,
}

impl Terminal {
    pub fn new() -> Self {
        let is_one = std::io::stdout().is_terminal();
        let size = ratatui::crossterm::terminal::size;
        let columns = || size().map_or(80, |(columns, _)| columns.max(20).into());
        Self {
            is_one,
            width: is_one.then(columns),
            utf8: has_utf8(|name| std::env::var(name).ok()),
        }
    }

    /// A text of a segment: nothing in it acts on the terminal.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match plain(text) {
            safe if self.utf8 || safe.is_ascii() => safe,
            safe => Cow::Owned(ascii(&safe)),
        }
    }

    /// A text that is plain already.
    pub fn safe(&self, plain: String) -> String {
        if self.utf8 || plain.is_ascii() {
            plain
        } else {
            ascii(&plain)
        }
    }

    /// As much of a text as there is room for, with a mark where it was cut.
    pub fn cut(&self, text: &str, columns: usize) -> String {
        if text.width() <= columns {
            return text.to_string();
        }
        let mark = if self.utf8 { "…" } else { "~" };
        let mut room = columns.saturating_sub(mark.width());
        let fits = |c: &char| match room.checked_sub(c.width().unwrap_or(0)) {
            Some(left) => {
                room = left;
                true
            }
            None => false,
        };
        let mut out: String = text.chars().take_while(fits).collect();
        if columns > 0 {
            out.push_str(mark);
        }
        out
    }

    /// A bar of that part of so many columns.
    pub fn bar(&self, part: f64, columns: usize) -> String {
        const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        let eighths = (part.clamp(0.0, 1.0) * columns as f64 * 8.0).ceil() as usize;
        if self.utf8 {
            let rest = EIGHTHS.get(eighths % 8).unwrap_or(&"");
            return format!("{}{rest}", "█".repeat(eighths / 8));
        }
        "#".repeat(eighths.div_ceil(8))
    }
}

/// Whether the locale has UTF-8: the first of these variables that is set says it.
pub fn has_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let mut set = names
        .iter()
        .filter_map(|name| variable(name).filter(|v| !v.is_empty()));
    set.next().is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// A text with escapes for what acts on a terminal or cannot be seen: control characters, and those
/// that change the direction. A backslash is doubled, so that all texts differ.
pub fn plain(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| (' '..='~').contains(&c) && c != '\\';
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for part in text.split_inclusive(['"', '\'']) {
        let body = part.trim_end_matches(['"', '\'']);
        out.extend(body.escape_debug());
        out.push_str(&part[body.len()..]);
    }
    Cow::Owned(out)
}

/// Escape in lines of another format what acts on a terminal.
pub fn plain_lines(text: &str) -> String {
    let acts = |c: char| c != '\n' && !(' '..='~').contains(&c) && c.escape_debug().len() > 1;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

fn ascii(text: &str) -> String {
    let escape = |c: char| {
        if c.is_ascii() {
            c.to_string()
        } else {
            c.escape_unicode().to_string()
        }
    };
    text.chars().map(escape).collect()
}

/// Escape in JSON what its encoder leaves, and a terminal acts on.
pub fn plain_json(json: String) -> String {
    let acts = |c: char| c > '~' && c.escape_debug().len() > 1;
    if !json.contains(acts) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if acts(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const UTF8: Terminal = Terminal {
        is_one: true,
        width: Some(80),
        utf8: true,
    };
    const ASCII: Terminal = Terminal {
        is_one: true,
        width: Some(80),
        utf8: false,
    };

    #[test]
    fn nothing_acts_on_the_terminal() {
        for (text, escaped, in_ascii) in [
            ("a b", "a b", "a b"),
            ("it's \"x\"", "it's \"x\"", "it's \"x\""),
            ("\x1b[2J", "\\u{1b}[2J", "\\u{1b}[2J"),
            ("a\nb\\", "a\\nb\\\\", "a\\nb\\\\"),
            ("\u{9b}2J", "\\u{9b}2J", "\\u{9b}2J"),
            ("\u{202e}x", "\\u{202e}x", "\\u{202e}x"),
            ("ü漢", "ü漢", "\\u{fc}\\u{6f22}"),
        ] {
            assert_eq!(UTF8.text(text), escaped);
            assert_eq!(ASCII.text(text), in_ascii);
            let json = plain_json(serde_json::to_string(text).unwrap());
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
            assert!(!json.chars().any(|c| c.is_control() || c == '\u{202e}'));
        }
    }

    #[test]
    fn texts_are_cut_by_columns() {
        assert_eq!(UTF8.cut("abc", 3), "abc");
        assert_eq!(UTF8.cut("abcd", 3), "ab…");
        assert_eq!(ASCII.cut("abcd", 3), "ab~");
        assert_eq!(UTF8.cut("漢漢漢", 5), "漢漢…");
        assert_eq!(UTF8.cut("漢漢漢", 4), "漢…");
        assert_eq!(UTF8.cut("abc", 0), "");
    }

    #[test]
    fn bars() {
        assert_eq!(UTF8.bar(1.0, 4), "████");
        assert_eq!(UTF8.bar(0.5, 3), "█▌");
        assert_eq!(UTF8.bar(1e-9, 3), "▏");
        assert_eq!(UTF8.bar(0.0, 3), "");
        assert_eq!(ASCII.bar(0.5, 3), "##");
        assert_eq!(ASCII.bar(f64::NAN, 3), "");
    }

    #[test]
    fn locales() {
        let of = |all: &'static str, lang: &'static str| {
            has_utf8(move |name| match name {
                "LC_ALL" => Some(all.to_string()),
                "LANG" => Some(lang.to_string()),
                _ => None,
            })
        };
        assert!(of("", "de_DE.UTF-8") && of("C.utf8", "C"));
        assert!(!of("C", "de_DE.UTF-8") && !of("", "C") && !of("", ""));
    }
}
