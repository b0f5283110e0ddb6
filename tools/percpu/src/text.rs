// SPDX-License-Identifier: MIT
//! Texts of files on a terminal: what could act on it is escaped, and widths are counted.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Whether a character acts on a terminal, or cannot be seen: control characters, marks of direction,
/// joiners, separators, tags. Combining characters do not: they are a part of what is before them.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Escape what acts on a terminal. What is escaped already stays as it is.
pub fn clean(text: &str) -> Cow<'_, str> {
    escaped(text, acts)
}

/// The same, with backslashes doubled, so that texts that differ still do.
pub fn plain(text: &str) -> Cow<'_, str> {
    escaped(text, |c| acts(c) || c == '\\')
}

fn escaped(text: &str, which: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&which) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if which(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Without what is not ASCII.
pub fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            'µ' => out.push('u'),
            c if c.is_ascii() => out.push(c),
            c => out.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(out)
}

/// Escape in lines of another format what acts on a terminal.
pub fn plain_lines(text: &str) -> String {
    escaped(text, |c| acts(c) && c != '\n').into_owned()
}

/// Escape in JSON what its encoder leaves, and a terminal acts on.
pub fn plain_json(json: String) -> String {
    let left = |c: char| c > '~' && acts(c);
    if !json.contains(left) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if left(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// As much of a text as so many columns have room for, with a mark where it was cut.
pub fn cut(text: &str, columns: usize, utf8: bool) -> Cow<'_, str> {
    if text.width() <= columns {
        return Cow::Borrowed(text);
    }
    if columns == 0 {
        return Cow::Borrowed("");
    }
    let mut room = columns - 1;
    let fits = |c: &char| match room.checked_sub(c.width().unwrap_or(0)) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    let mut out: String = text.chars().take_while(fits).collect();
    out.push(if utf8 { '…' } else { '~' });
    Cow::Owned(out)
}

/// A text in just that many columns.
pub fn fit(text: &str, columns: usize, utf8: bool) -> String {
    let text = cut(text, columns, utf8);
    format!("{text}{}", " ".repeat(columns - text.width()))
}

/// The same, cut in the middle: names that begin alike differ at the end.
pub fn fit_ends(text: &str, columns: usize, utf8: bool) -> String {
    if text.width() <= columns || columns == 0 {
        return fit(text, columns, utf8);
    }
    let mut room = (columns - 1) / 2;
    let fits = |(_, c): &(usize, char)| match room.checked_sub(c.width().unwrap_or(0)) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    let end = text.char_indices().rev().take_while(fits).last();
    let (begin, end) = text.split_at(end.map_or(text.len(), |(at, _)| at));
    // What is before the end is longer than its room, so that it is cut and has the mark.
    fit(begin, columns.saturating_sub(end.width()), utf8) + end
}

/// The same, at the right.
pub fn right(text: &str, columns: usize, utf8: bool) -> String {
    let text = cut(text, columns, utf8);
    format!("{}{text}", " ".repeat(columns - text.width()))
}

/// A text in lines of that many columns, broken at spaces where there are some.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    let mut add = |part: &str, w: usize, lines: &mut Vec<String>| {
        if used + w > columns && used > 0 {
            lines.push(String::new());
            used = 0;
        }
        if let (Some(line), false) = (lines.last_mut(), used == 0 && part == " ") {
            line.push_str(part);
            used += w;
        }
    };
    for word in text.split_inclusive(' ') {
        let bare = word.trim_end_matches(' ');
        if bare.width() <= columns {
            add(bare, bare.width(), &mut lines);
        } else {
            for c in bare.chars() {
                add(
                    c.encode_utf8(&mut [0; 4]),
                    c.width().unwrap_or(0),
                    &mut lines,
                );
            }
        }
        if bare.len() < word.len() {
            add(" ", 1, &mut lines);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_on_the_terminal() {
        for (text, cleaned, plainly) in [
            ("a b", "a b", "a b"),
            ("it's \"x\"", "it's \"x\"", "it's \"x\""),
            (
                "a\x1b[31mb\n\u{9b}",
                "a\\u{1b}[31mb\\n\\u{9b}",
                "a\\u{1b}[31mb\\n\\u{9b}",
            ),
            (
                "a\u{202e}b\u{200d}",
                "a\\u{202e}b\\u{200d}",
                "a\\u{202e}b\\u{200d}",
            ),
            ("é 漢 e\u{301}", "é 漢 e\u{301}", "é 漢 e\u{301}"),
            ("a\\n", "a\\n", "a\\\\n"),
        ] {
            assert_eq!(clean(text), cleaned);
            assert_eq!(clean(&clean(text)), cleaned);
            assert_eq!(plain(text), plainly);
            let json = plain_json(serde_json::to_string(text).unwrap());
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
            assert!(!json.contains(acts));
        }
        assert_eq!(plain_lines("a\n\x1bb\\n\n"), "a\n\\u{1b}b\\n\n");
        assert_eq!(ascii("é µs"), "\\u{e9} us");
    }

    #[test]
    fn texts_have_the_width_that_is_asked_for() {
        assert_eq!(cut("abc", 3, true), "abc");
        assert_eq!(cut("abcd", 3, false), "ab~");
        assert_eq!(cut("漢漢漢", 5, true), "漢漢…");
        assert_eq!(fit("abc", 5, true), "abc  ");
        assert_eq!(fit("漢字漢字", 4, true), "漢… ");
        assert_eq!(fit("漢", 1, true), "…");
        assert_eq!(fit("x", 0, true), "");
        assert_eq!(right("7", 3, true), "  7");
        assert_eq!(fit_ends("abcdef", 6, true), "abcdef");
        assert_eq!(fit_ends("abcdef", 5, true), "ab…ef");
        assert_eq!(fit_ends("abcdefgh", 4, false), "ab~h");
        assert_eq!(fit_ends("漢字漢字", 6, true), "漢… 字");
        assert_eq!(fit_ends("abc", 1, true), "…");
        for columns in 0..12 {
            for text in ["", "abc", "漢字漢字", "e\u{301}e\u{301}e\u{301}"] {
                assert_eq!(fit(text, columns, true).width(), columns);
                assert_eq!(fit_ends(text, columns, true).width(), columns);
                assert_eq!(right(text, columns, true).width(), columns);
            }
        }
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("漢字", 1), ["漢", "字"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
