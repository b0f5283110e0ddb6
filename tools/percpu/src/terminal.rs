// SPDX-License-Identifier: MIT
//! Where lines are printed: how wide it is, and what it can show.

use std::borrow::Cow;
use std::io::IsTerminal;

use crate::text::{self, ascii, plain};

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
            safe if self.utf8 => safe,
            Cow::Borrowed(safe) => ascii(safe),
            Cow::Owned(safe) => Cow::Owned(ascii(&safe).into_owned()),
        }
    }

    /// A text that is plain already.
    pub fn safe(&self, plain: String) -> String {
        if self.utf8 {
            plain
        } else {
            ascii(&plain).into_owned()
        }
    }

    /// As much of a text as there is room for, with a mark where it was cut.
    pub fn cut(&self, text: &str, columns: usize) -> String {
        text::cut(text, columns, self.utf8).into_owned()
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
    fn texts_are_what_the_terminal_can_show() {
        for (text, shown, in_ascii) in [
            ("a b", "a b", "a b"),
            ("a\nb\\", "a\\nb\\\\", "a\\nb\\\\"),
            ("ü漢", "ü漢", "\\u{fc}\\u{6f22}"),
        ] {
            assert_eq!(UTF8.text(text), shown);
            assert_eq!(ASCII.text(text), in_ascii);
        }
        assert_eq!(ASCII.safe("1 µs".to_string()), "1 us");
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
