// SPDX-License-Identifier: MIT
//! The terminal and signals. Whatever ends the program, the terminal is as it was.

use std::io::{self, IsTerminal, Stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, KeyEvent};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    disable_raw_mode, enable_raw_mode, size, Clear, ClearType, EnterAlternateScreen,
    LeaveAlternateScreen,
};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::failure::{Exit, Failure};

/// Whether the terminal is not as it was.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Cells of a picture, at most.
const MOST: u32 = 4_000_000;

/// What happens outside.
pub enum Event {
    Key(KeyEvent),
    Resize,
    Signal(i32),
    /// The terminal cannot be read.
    Gone,
}

pub struct Terminal {
    screen: ratatui::Terminal<CrosstermBackend<Stdout>>,
    events: Receiver<Event>,
}

fn failed(e: &io::Error) -> Failure {
    Failure::new(Exit::System, format!("the terminal cannot be used: {e}"))
}

/// Fails if input or output is no terminal.
pub fn check() -> Result<(), Failure> {
    let what = match (io::stdin().is_terminal(), io::stdout().is_terminal()) {
        (true, true) => return Ok(()),
        (false, _) => "input",
        (true, false) => "output",
    };
    Err(Failure::new(
        Exit::Usage,
        format!(
            "top needs a terminal, and the standard {what} is none: --frames prints screens as \
             text, and percpu watch prints lines"
        ),
    ))
}

impl Terminal {
    /// Take the terminal. It is given back when the result is dropped, by a signal, and by a panic.
    pub fn new() -> Result<Self, Failure> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        let (sender, events) = mpsc::channel();
        listen(&sender).map_err(|e| failed(&e))?;
        let screen = take().map_err(|e| failed(&e))?;
        thread::spawn(move || read_keys(&sender));
        Ok(Self { screen, events })
    }

    pub fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame)) -> Result<(), Failure> {
        check_size().map_err(|e| failed(&e))?;
        self.screen.draw(draw).map(drop).map_err(|e| failed(&e))
    }

    /// Wait for what happens outside, at most until a moment.
    pub fn wait(&self, until: Option<Instant>) -> Option<Event> {
        // A year: without an end, in effect.
        const LONG: Duration = Duration::from_secs(31_536_000);
        let time = until.map_or(LONG, |u| u.saturating_duration_since(Instant::now()));
        match self.events.recv_timeout(time) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Event::Gone),
        }
    }

    /// What has happened outside already.
    pub fn waiting(&self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// Do what a signal does by default: stop, or end. When the program goes on, the terminal is
    /// taken again.
    pub fn obey(&mut self, signal: i32) -> Result<(), Failure> {
        give_back();
        if signal != SIGCONT {
            emulate_default_handler(signal).map_err(|e| failed(&e))?;
        }
        self.redraw()
    }

    /// Have the next frame drawn whole.
    pub fn redraw(&mut self) -> Result<(), Failure> {
        self.screen = take().map_err(|e| failed(&e))?;
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Fail if the terminal says it has so many cells that a picture of them would take all memory.
fn check_size() -> io::Result<()> {
    let (columns, rows) = size()?;
    if u32::from(columns) * u32::from(rows) <= MOST {
        return Ok(());
    }
    let sentence = format!("it says it has {columns} columns and {rows} rows: stty(1) sets them");
    Err(io::Error::other(sentence))
}

fn take() -> io::Result<ratatui::Terminal<CrosstermBackend<Stdout>>> {
    check_size()?;
    TAKEN.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    execute!(
        io::stdout(),
        EnterAlternateScreen,
        Hide,
        Clear(ClearType::All)
    )?;
    ratatui::Terminal::new(CrosstermBackend::new(io::stdout()))
}

fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // The terminal may be gone, and then there is nothing to give back.
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

fn listen(sender: &Sender<Event>) -> io::Result<()> {
    // crossterm loses a change of the size that comes together with a key, and its thread may begin
    // after a change.
    let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGTSTP, SIGCONT, SIGWINCH])?;
    let sender = sender.clone();
    thread::spawn(move || {
        for signal in signals.forever() {
            let event = match signal {
                SIGWINCH => Event::Resize,
                signal => Event::Signal(signal),
            };
            if sender.send(event).is_err() {
                return;
            }
        }
    });
    Ok(())
}

fn read_keys(sender: &Sender<Event>) {
    loop {
        let event = match event::read() {
            Ok(event::Event::Key(key)) => Event::Key(key),
            Ok(_) => continue,
            Err(_) => Event::Gone,
        };
        let last = matches!(event, Event::Gone);
        if sender.send(event).is_err() || last {
            return;
        }
    }
}
