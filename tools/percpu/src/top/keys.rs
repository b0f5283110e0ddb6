// SPDX-License-Identifier: MIT
//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::app::{App, Pane};
use super::rows::{Id, Order, What};

/// For `percpu top --help` and for the help on the screen.
pub const KEYS: &str = "\
Up Down j k         move the cursor; also PageUp, PageDown, Home, End
Enter               open or close the labels of a name, or a segment
Right Left l h      open, close
a                   open or close all names
/                   search as you type; Enter keeps it, Esc ends it
n r c               sort each segment by name, by rate, by change
Space               freeze the screen, or go on
Left Right          while frozen: one picture back, one on
[ ]                 while frozen: ten back, ten on
Tab                 details: below the list, without it, hidden
J K                 scroll the details
Ctrl-L              draw the screen anew
Ctrl-Z              stop; the shell's fg goes on
? q Esc Ctrl-C      this help; quit";

/// What is to be done that the state cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    None,
    Quit,
    Stop,
    Redraw,
}

impl App {
    pub fn key(&mut self, key: KeyEvent) -> Outcome {
        if key.kind == KeyEventKind::Release {
            return Outcome::None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Outcome::Quit,
                KeyCode::Char('z') => Outcome::Stop,
                KeyCode::Char('l') => Outcome::Redraw,
                _ => Outcome::None,
            };
        }
        // Esc and a key that follows at once cannot be told from Alt and that key.
        if key.modifiers.contains(KeyModifiers::ALT) {
            if !self.typing {
                return Outcome::None;
            }
            self.type_key(KeyCode::Esc);
        }
        self.said = None;
        if self.typing {
            self.type_key(key.code);
            return Outcome::None;
        }
        if self.help {
            return self.help_key(key.code);
        }
        self.plain_key(key.code)
    }

    /// A key while no text is typed and no help is shown.
    fn plain_key(&mut self, code: KeyCode) -> Outcome {
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Outcome::Quit,
            KeyCode::Char('n') => self.sort(Order::Name),
            KeyCode::Char('r') => self.sort(Order::Rate),
            KeyCode::Char('c') => self.sort(Order::Change),
            KeyCode::Char('/') => {
                self.typing = true;
                self.search(String::new());
            }
            KeyCode::Char(' ') => self.freeze(!self.frozen),
            KeyCode::Char('?') => {
                self.help = true;
                self.pane_top = 0;
            }
            KeyCode::Tab => {
                self.pane = match self.pane {
                    Pane::Beside => Pane::Alone,
                    Pane::Alone => Pane::Hidden,
                    Pane::Hidden => Pane::Beside,
                };
            }
            KeyCode::Char('J') => self.pane_top = self.pane_top.saturating_add(1),
            KeyCode::Char('K') => self.pane_top = self.pane_top.saturating_sub(1),
            code => self.move_key(code),
        }
        Outcome::None
    }

    fn move_key(&mut self, code: KeyCode) {
        let page = self.height.saturating_sub(1).max(1);
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.move_to(self.cursor.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.move_to(self.cursor + 1),
            KeyCode::PageUp => self.move_to(self.cursor.saturating_sub(page)),
            KeyCode::PageDown => self.move_to(self.cursor + page),
            KeyCode::Home => self.move_to(0),
            KeyCode::End => self.move_to(usize::MAX),
            KeyCode::Left if self.frozen => self.step(-1),
            KeyCode::Right if self.frozen => self.step(1),
            KeyCode::Char('[') if self.frozen => self.step(-10),
            KeyCode::Char(']') if self.frozen => self.step(10),
            KeyCode::Enter => self.open(None),
            KeyCode::Right | KeyCode::Char('l') => self.open(Some(true)),
            KeyCode::Left | KeyCode::Char('h') => self.open(Some(false)),
            KeyCode::Char('a') => self.open_all(),
            _ => {}
        }
    }

    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.search(String::new());
            }
            KeyCode::Backspace => {
                let mut text = self.choice.filter.clone();
                text.pop();
                self.search(text);
            }
            KeyCode::Char(c) => {
                let mut text = self.choice.filter.clone();
                text.extend(c.to_lowercase());
                self.search(text);
            }
            code => self.move_key(code),
        }
    }

    /// Search for a text. The cursor stays where it is if that matches, or goes to the first match.
    fn search(&mut self, text: String) {
        let before = self.row().and_then(|r| r.id(&self.boards));
        self.choice.filter = text;
        self.arrange();
        if self.row().and_then(|r| r.id(&self.boards)) != before {
            self.move_to(0);
        }
    }

    fn help_key(&mut self, code: KeyCode) -> Outcome {
        match code {
            KeyCode::Down | KeyCode::Char('j' | 'J') => self.pane_top += 1,
            KeyCode::Up | KeyCode::Char('k' | 'K') => {
                self.pane_top = self.pane_top.saturating_sub(1);
            }
            _ => {
                self.help = false;
                self.pane_top = 0;
            }
        }
        Outcome::None
    }

    fn sort(&mut self, order: Order) {
        self.choice.order = order;
        self.arrange();
    }

    /// Open or close what the cursor is on: as it is not, if nothing else is said. Closing a
    /// series closes those of its name.
    fn open(&mut self, open: Option<bool>) {
        let Some((row, id)) = self.row().and_then(|r| Some((r, r.id(&self.boards)?))) else {
            return;
        };
        let (is_open, id) = match (&row.what, id) {
            (What::Board, id) => (!self.choice.toggled.contains(&id), id),
            (What::Group { open, .. }, id) => (*open, id),
            (What::Series { member: true, .. }, Id::Series(board, _)) if open == Some(false) => {
                let tracks = self.tracks();
                let name = tracks
                    .first()
                    .map_or(String::new(), |t| t.about.name.clone());
                (true, Id::Group(board, name))
            }
            _ => return,
        };
        if open == Some(is_open) {
            return;
        }
        if !self.choice.toggled.remove(&id) {
            self.choice.toggled.insert(id.clone());
        }
        self.arrange();
        let place = self.rows.iter().position(|r| r.is(&self.boards, &id));
        self.move_to(place.unwrap_or(self.cursor));
    }

    /// Open all names; if all are open, close them.
    fn open_all(&mut self) {
        let mut names = Vec::new();
        for board in self.boards.iter() {
            for range in board.groups.iter().filter(|r| r.len() > 1) {
                if let Some(first) = board.tracks.get(range.start) {
                    names.push(Id::Group(board.name.clone(), first.about.name.clone()));
                }
            }
        }
        if names.iter().all(|id| self.choice.toggled.contains(id)) {
            names.iter().for_each(|id| {
                self.choice.toggled.remove(id);
            });
        } else {
            self.choice.toggled.extend(names);
        }
        self.arrange();
    }
}
