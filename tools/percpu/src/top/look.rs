// SPDX-License-Identifier: MIT
//! What a terminal can show: UTF-8 or ASCII, and how many colors.

use ratatui::style::{Color, Modifier, Style};

use crate::failure::{Exit, Failure};
use crate::terminal::has_utf8;
use crate::text::{self, ascii};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    None,
    Few,
    Many,
}

/// How the screen is drawn. Colors only repeat what characters say. No color of the background is
/// set, and those of the text can be read on light and on dark ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub utf8: bool,
    pub colors: Colors,
}

/// What is what on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Plain,
    /// Names of columns, and what is less important.
    Quiet,
    Title,
    Graph,
    /// Something is wrong, or was.
    Alarm,
    /// The row under the cursor.
    Cursor,
    /// A part of a heat strip, 0 to 7.
    Heat(u8),
}

impl Look {
    /// Without colors.
    pub fn plain(utf8: bool) -> Self {
        let colors = Colors::None;
        Self { utf8, colors }
    }

    /// What the environment says. Fails if the terminal cannot move its cursor.
    pub fn new(env: &dyn Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let set = |name| env(name).filter(|v| !v.is_empty());
        let term = set("TERM").unwrap_or_default();
        if term.is_empty() || term == "dumb" {
            let kind = if term.is_empty() { "not set" } else { "dumb" };
            return Err(Failure::new(
                Exit::Usage,
                format!("top needs a terminal that can move its cursor, but TERM is {kind}: percpu watch prints lines"),
            ));
        }
        let colors = if set("NO_COLOR").is_some() || without_colors(&term) {
            Colors::None
        } else if term.contains("256color") || term.contains("direct") || set("COLORTERM").is_some()
        {
            Colors::Many
        } else {
            Colors::Few
        };
        Ok(Self {
            utf8: has_utf8(env),
            colors,
        })
    }

    pub fn style(self, ink: Ink) -> Style {
        let plain = Style::new();
        let colored = |color| match self.colors {
            Colors::None => plain,
            Colors::Few | Colors::Many => plain.fg(color),
        };
        match ink {
            Ink::Plain => plain,
            Ink::Quiet => colored(Color::Cyan),
            Ink::Title => plain.add_modifier(Modifier::BOLD),
            Ink::Graph => colored(Color::Blue),
            Ink::Alarm => colored(Color::Red).add_modifier(Modifier::BOLD),
            Ink::Cursor => plain.add_modifier(Modifier::REVERSED),
            Ink::Heat(n) => colored(self.heat(n)),
        }
    }

    /// From cold to hot, in colors that are neither near white nor near black.
    fn heat(self, n: u8) -> Color {
        const MANY: [u8; 8] = [25, 31, 37, 71, 136, 166, 160, 161];
        const FEW: [Color; 4] = [Color::Blue, Color::Cyan, Color::Magenta, Color::Red];
        let n = usize::from(n.min(7));
        match self.colors {
            Colors::Many => Color::Indexed(MANY[n]),
            _ => FEW[n / 2],
        }
    }

    /// Parts of a cell, from the least to the whole.
    pub fn levels(self) -> [char; 8] {
        if self.utf8 {
            ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
        } else {
            ['_', '.', '-', ':', '=', '+', '*', '#']
        }
    }

    /// A text without what acts on the terminal, and without what that cannot show.
    pub fn clean(self, text: &str) -> String {
        let clean = text::clean(text);
        if self.utf8 {
            clean.into_owned()
        } else {
            ascii(&clean).into_owned()
        }
    }

    /// A text in just that many columns. What is cut has a mark at its end.
    pub fn fit(self, text: &str, columns: usize) -> String {
        text::fit(text, columns, self.utf8)
    }

    /// The same, cut in the middle.
    pub fn fit_ends(self, text: &str, columns: usize) -> String {
        text::fit_ends(text, columns, self.utf8)
    }

    /// The same, at the right.
    pub fn right(self, text: &str, columns: usize) -> String {
        text::right(text, columns, self.utf8)
    }

    /// One of two texts, for UTF-8 and for ASCII.
    pub fn pick<T>(self, utf8: T, ascii: T) -> T {
        if self.utf8 {
            utf8
        } else {
            ascii
        }
    }
}

/// Terminals that are known to have none.
fn without_colors(term: &str) -> bool {
    term.starts_with("vt1")
        || term.starts_with("vt2")
        || term.ends_with("-m")
        || term.ends_with("-mono")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(env: &[(&str, &str)]) -> Result<Look, Failure> {
        Look::new(&|name| {
            let found = env.iter().find(|(n, _)| *n == name);
            found.map(|(_, v)| v.to_string())
        })
    }

    #[test]
    fn the_environment_says_what_a_terminal_can() {
        for (env, utf8, colors) in [
            (
                &[("TERM", "xterm"), ("LANG", "en_US.UTF-8")][..],
                true,
                Colors::Few,
            ),
            (
                &[("TERM", "xterm-256color"), ("LANG", "C.utf8")],
                true,
                Colors::Many,
            ),
            (
                &[("TERM", "xterm"), ("COLORTERM", "truecolor")],
                false,
                Colors::Many,
            ),
            (
                &[("TERM", "xterm"), ("NO_COLOR", "1"), ("LANG", "C")],
                false,
                Colors::None,
            ),
            (&[("TERM", "xterm"), ("NO_COLOR", "")], false, Colors::Few),
            (
                &[("TERM", "vt100"), ("LC_ALL", "C"), ("LANG", "C.UTF-8")],
                false,
                Colors::None,
            ),
            (
                &[
                    ("TERM", "linux"),
                    ("LC_CTYPE", "de_DE.UTF-8"),
                    ("LANG", "C"),
                ],
                true,
                Colors::Few,
            ),
        ] {
            assert_eq!(look(env).unwrap(), Look { utf8, colors }, "{env:?}");
        }
    }

    #[test]
    fn a_dumb_terminal_gets_a_sentence() {
        for env in [&[("TERM", "dumb")][..], &[]] {
            let failure = look(env).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.sentence.contains("percpu watch"), "{failure}");
        }
    }

    #[test]
    fn without_colors_no_style_has_one() {
        let look = look(&[("TERM", "xterm"), ("NO_COLOR", "1")]).unwrap();
        for ink in [
            Ink::Plain,
            Ink::Quiet,
            Ink::Title,
            Ink::Graph,
            Ink::Alarm,
            Ink::Heat(7),
        ] {
            assert_eq!((look.style(ink).fg, look.style(ink).bg), (None, None));
        }
    }
}
