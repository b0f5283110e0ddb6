// SPDX-License-Identifier: MIT
//! A program in a pseudo-terminal, and its screen. The benchmark uses it, too.

#![allow(clippy::unwrap_used, dead_code)]

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{native_pty_system, Child, CommandBuilder, MasterPty, PtySize};

/// Longer than anything here takes, also on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Output {
    parser: vt100::Parser,
    bytes: Vec<u8>,
    ended: bool,
}

pub struct Tty {
    master: Box<dyn MasterPty + Send>,
    input: Box<dyn Write + Send>,
    pub child: Box<dyn Child + Send + Sync>,
    output: Arc<(Mutex<Output>, Condvar)>,
}

pub fn size(columns: u16, lines: u16) -> PtySize {
    PtySize {
        rows: lines,
        cols: columns,
        pixel_width: 0,
        pixel_height: 0,
    }
}

fn some(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap()
}

/// A program with an environment that says: UTF-8, 256 colors.
pub fn command(program: &str, args: &[&str]) -> CommandBuilder {
    let mut command = CommandBuilder::new(program);
    command.args(args);
    for name in ["NO_COLOR", "COLORTERM", "LC_ALL", "LC_CTYPE"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm-256color");
    command.env("LANG", "C.UTF-8");
    command
}

impl Tty {
    pub fn new(command: CommandBuilder, columns: u16, lines: u16) -> Self {
        let pty = native_pty_system().openpty(size(columns, lines)).unwrap();
        let child = pty.slave.spawn_command(command).unwrap();
        let mut reader = pty.master.try_clone_reader().unwrap();
        let output = Arc::new((Mutex::new(Output::default()), Condvar::new()));
        output.0.lock().unwrap().parser = vt100::Parser::new(some(lines), some(columns), 0);
        let shared = output.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let n = reader.read(&mut buffer).unwrap_or(0);
                let mut output = shared.0.lock().unwrap();
                output.parser.process(&buffer[..n]);
                output.bytes.extend(&buffer[..n]);
                output.ended = n == 0;
                shared.1.notify_all();
                if n == 0 {
                    return;
                }
            }
        });
        let input = pty.master.take_writer().unwrap();
        Self {
            master: pty.master,
            input,
            child,
            output,
        }
    }

    pub fn keys(&mut self, keys: &str) {
        self.input.write_all(keys.as_bytes()).unwrap();
        self.input.flush().unwrap();
    }

    pub fn resize(&mut self, columns: u16, lines: u16) {
        let (output, _) = &*self.output;
        output
            .lock()
            .unwrap()
            .parser
            .screen_mut()
            .set_size(some(lines), some(columns));
        self.resize_unseen(columns, lines);
    }

    /// Tell the program a size that the screen does not have.
    pub fn resize_unseen(&mut self, columns: u16, lines: u16) {
        self.master.resize(size(columns, lines)).unwrap();
    }

    /// Wait until the screen is as a function says, and return its text.
    pub fn wait(&self, what: &str, is: impl Fn(&vt100::Screen) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        let (output, changed) = &*self.output;
        let mut output = output.lock().unwrap();
        loop {
            let screen = output.parser.screen();
            if is(screen) {
                return screen.contents();
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {what} on\n{}", screen.contents());
            output = changed.wait_timeout(output, left).unwrap().0;
        }
    }

    /// Wait for a text on the screen.
    pub fn text(&self, text: &str) -> String {
        self.wait(text, |s| s.contents().contains(text))
    }

    pub fn gone(&self, text: &str) -> String {
        self.wait(&format!("screen without {text}"), |s| {
            !s.contents().contains(text)
        })
    }

    /// All that was written so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.output.0.lock().unwrap().bytes.clone()
    }

    /// What its threads wait for, and what it shows.
    fn state(&self) -> String {
        let pid = self.child.process_id().unwrap();
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let mut text = String::new();
        for task in tasks.flatten() {
            let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
            text += &format!("{} {}", read("wchan"), read("syscall"));
        }
        text + &self.output.0.lock().unwrap().parser.screen().contents()
    }

    /// Wait until the program has ended and all that it wrote was read. Returns its exit code.
    pub fn end(&mut self) -> u32 {
        let end = Instant::now() + PATIENCE;
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.exit_code();
            }
            assert!(Instant::now() < end, "it does not end: {}", self.state());
            std::thread::sleep(Duration::from_millis(5));
        };
        let (output, changed) = &*self.output;
        let wait = changed.wait_timeout_while(output.lock().unwrap(), PATIENCE, |o| !o.ended);
        assert!(wait.unwrap().0.ended, "the terminal is still open");
        code
    }

    /// The process that a shell in this terminal runs.
    pub fn grandchild(&self) -> i32 {
        let shell = self.child.process_id().unwrap();
        let path = format!("/proc/{shell}/task/{shell}/children");
        let end = Instant::now() + PATIENCE;
        loop {
            let children = std::fs::read_to_string(&path).unwrap_or_default();
            if let Some(pid) = children.split_whitespace().next() {
                return pid.parse().unwrap();
            }
            assert!(Instant::now() < end, "the shell has no child");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        // By SIGHUP, and after a while by SIGKILL.
        let _ = self.child.kill();
    }
}

/// A folder that is removed in the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let name = format!("percpu-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
