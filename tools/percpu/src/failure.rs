// SPDX-License-Identifier: MIT
//! Why a verb ends, and the exit code for it.

use std::fmt;
use std::io;

use crate::text::clean;

/// The exit codes, which `percpu --help` and the man page list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// `doctor` found something to change; `gc` and `reset`: the answer was no.
    Advice = 1,
    /// Wrong usage. clap ends with this number, too.
    Usage = 2,
    /// There is no such segment or metric, or several match.
    NotFound = 3,
    /// The file may not be read, or not be changed.
    Denied = 4,
    /// The file is damaged, is no segment, or is of another version.
    BadFile = 5,
    /// A process counts in the segment, or that cannot be known.
    InUse = 6,
    /// A system call failed, or the output could not be written.
    System = 7,
    /// `doctor`: the kernel breaks sequences.
    Broken = 8,
}

/// A sentence that says what is wrong and what to do, and the exit code.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub sentence: String,
}

impl Failure {
    pub fn new(exit: Exit, sentence: impl Into<String>) -> Self {
        Self {
            exit,
            sentence: sentence.into(),
        }
    }

    /// Print the sentence on stderr, and return the exit code. When the reader of a pipe has gone,
    /// there is nothing to say.
    pub fn tell(self) -> Exit {
        if !self.sentence.is_empty() {
            let line = format!("percpu: {}\n", clean(&self.sentence));
            // With stderr closed, nobody would read it.
            let _ = io::Write::write_all(&mut io::stderr(), line.as_bytes());
        }
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl From<io::Error> for Failure {
    /// An error of writing the output.
    fn from(e: io::Error) -> Self {
        if e.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Done, "");
        }
        Self::new(Exit::System, format!("the output cannot be written: {e}"))
    }
}

impl From<percpu::Error> for Failure {
    fn from(e: percpu::Error) -> Self {
        use percpu::Error as E;
        let exit = match e {
            E::NotFound(_) | E::Invalid(_) | E::TooLong(_) => Exit::NotFound,
            E::Denied(_) => Exit::Denied,
            E::Damaged(_) | E::Version(_) => Exit::BadFile,
            E::Busy(_) | E::NoLock(_) => Exit::InUse,
            _ => Exit::System,
        };
        Self::new(exit, e.to_string())
    }
}
