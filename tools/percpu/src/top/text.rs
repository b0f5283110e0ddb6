// SPDX-License-Identifier: MIT
//! Texts of files on a terminal: what could steer it is escaped, and widths are counted.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::look::Look;

/// A text without control characters, and without those that turn or hide others. Without UTF-8,
/// also without what is not ASCII.
pub fn clean(text: &str, look: Look) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == 'µ' && !look.utf8 {
            out.push('u');
        } else if c.is_control() || hides(c) || !(c.is_ascii() || look.utf8) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Marks of direction, joiners, separators, tags: what has no width of its own but for combining
/// characters, which stay.
fn hides(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// A text in just that many columns. What is cut has a mark at its end.
pub fn fit(text: &str, columns: usize, look: Look) -> String {
    let width = text.width();
    if width <= columns {
        return format!("{text}{}", " ".repeat(columns - width));
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let w = c.width().unwrap_or(0);
        if used + w + 1 > columns {
            break;
        }
        out.push(c);
        used += w;
    }
    if columns > 0 {
        out.push(look.pick('…', '~'));
        used += 1;
    }
    out.push_str(&" ".repeat(columns.saturating_sub(used)));
    out
}

/// The same, at the right.
pub fn right(text: &str, columns: usize, look: Look) -> String {
    let width = text.width();
    if width > columns {
        return fit(text, columns, look);
    }
    format!("{}{text}", " ".repeat(columns - width))
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
    use super::super::look::Colors;
    use super::*;

    const UTF8: Look = Look {
        utf8: true,
        colors: Colors::None,
    };
    const ASCII: Look = Look {
        utf8: false,
        colors: Colors::None,
    };

    #[test]
    fn what_steers_a_terminal_is_escaped() {
        assert_eq!(clean("a\x1b[31mb\n\u{9b}", UTF8), "a\\u{1b}[31mb\\n\\u{9b}");
        assert_eq!(clean("a\u{202e}b\u{200d}", UTF8), "a\\u{202e}b\\u{200d}");
        assert_eq!(clean("é 漢 e\u{301}", UTF8), "é 漢 e\u{301}");
        assert_eq!(clean("é µs", ASCII), "\\u{e9} us");
    }

    #[test]
    fn texts_have_the_width_that_is_asked_for() {
        assert_eq!(fit("abc", 5, UTF8), "abc  ");
        assert_eq!(fit("abcdef", 4, UTF8), "abc…");
        assert_eq!(fit("abcdef", 4, ASCII), "abc~");
        assert_eq!(fit("漢字漢字", 4, UTF8), "漢… ");
        assert_eq!(fit("漢", 1, UTF8), "…");
        assert_eq!(fit("x", 0, UTF8), "");
        assert_eq!(right("7", 3, UTF8), "  7");
        for columns in 0..12 {
            for text in ["", "abc", "漢字漢字", "e\u{301}e\u{301}e\u{301}"] {
                assert_eq!(fit(text, columns, UTF8).width(), columns);
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
