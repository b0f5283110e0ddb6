// SPDX-License-Identifier: MIT
//! Aligned columns that fit into a terminal.

use unicode_width::UnicodeWidthStr;

use crate::terminal::Terminal;

/// How wide the first column is at most where lines are not cut: one long name does not move all
/// others.
const MOST: usize = 60;
/// So much of the last column stays, if there is so much.
const LAST: usize = 16;
const GAP: &str = "  ";

pub enum Line {
    /// A text for each column.
    Row(Vec<String>),
    /// A line that is not in columns.
    Text(String),
}

/// Columns: the first and the last one are cut where there is no room. `right` says which are
/// aligned to the right.
pub struct Table<'a> {
    pub terminal: &'a Terminal,
    pub heads: &'a [&'a str],
    pub right: &'a [bool],
    /// Whether to print the heads.
    pub headed: bool,
    pub lines: Vec<Line>,
}

impl Table<'_> {
    pub fn text(&self) -> String {
        let widths = self.widths();
        let mut out = String::new();
        if self.headed {
            let heads: Vec<_> = self.heads.iter().map(|h| (*h).to_string()).collect();
            out = self.row(&heads, &widths);
        }
        for line in &self.lines {
            match line {
                Line::Row(row) => out.push_str(&self.row(row, &widths)),
                Line::Text(text) => {
                    out.push_str(&self.cut(text, self.terminal.width));
                    out.push('\n');
                }
            }
        }
        if self.terminal.utf8 {
            out
        } else {
            out.replace('µ', "u") // of numbers: names are escaped
        }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<_> = self.heads.iter().map(|h| h.width()).collect();
        for line in &self.lines {
            if let Line::Row(row) = line {
                for (width, text) in widths.iter_mut().zip(row) {
                    *width = text.width().max(*width);
                }
            }
        }
        if let [first, middle @ .., last] = widths.as_mut_slice() {
            let Some(columns) = self.terminal.width else {
                *first = MOST.min(*first);
                return widths;
            };
            let taken = middle.iter().sum::<usize>() + GAP.len() * (middle.len() + 1);
            let room = columns.saturating_sub(taken);
            *first = room.saturating_sub(LAST.min(*last)).max(8).min(*first);
            *last = room.saturating_sub(*first).min(*last);
        }
        widths
    }

    fn row(&self, row: &[String], widths: &[usize]) -> String {
        let mut out = String::new();
        let last = widths.len().saturating_sub(1);
        for (i, (text, width)) in row.iter().zip(widths).enumerate() {
            let ends = i == 0 || i == last;
            let text = self.cut(text, self.terminal.width.filter(|_| ends).map(|_| *width));
            let space = " ".repeat(width.saturating_sub(text.width()));
            let parts = if self.right.get(i) == Some(&true) {
                [space, text]
            } else {
                [text, space]
            };
            out.extend(parts);
            out.push_str(GAP);
        }
        // In a very narrow terminal the columns between have no room either.
        self.cut(out.trim_end(), self.terminal.width) + "\n"
    }

    fn cut(&self, text: &str, columns: Option<usize>) -> String {
        match columns {
            Some(columns) => self.terminal.cut(text, columns),
            None => text.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(width: Option<usize>) -> String {
        let terminal = Terminal {
            is_one: width.is_some(),
            width,
            utf8: true,
        };
        let row = |texts: [&str; 3]| Line::Row(texts.map(String::from).to_vec());
        Table {
            terminal: &terminal,
            heads: &["NAME", "VALUE", "HELP"],
            right: &[false, true, false],
            headed: true,
            lines: vec![
                row(["requests", "7", "What was asked for, of all."]),
                row(["漢", "12345", ""]),
                Line::Text("    a line of its own".to_string()),
            ],
        }
        .text()
    }

    #[test]
    fn columns_are_aligned() {
        let text = "NAME      VALUE  HELP\n\
                    requests      7  What was asked for, of all.\n\
                    漢        12345\n    a line of its own\n";
        assert_eq!(table(None), text);
        assert_eq!(table(Some(80)), text);
    }

    #[test]
    fn lines_fit() {
        let text = "NAME      VALUE  HELP\n\
                    requests      7  What was aske…\n\
                    漢        12345\n    a line of its own\n";
        assert_eq!(table(Some(31)), text);
        for width in 20..60 {
            for line in table(Some(width)).lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
    }
}
