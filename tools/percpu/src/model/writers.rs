// SPDX-License-Identifier: MIT
//! How many processes map files for writing.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;

use serde::Serialize;

/// The processes that map a file for writing, as far as this process may look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Writers {
    /// There are at least so many.
    pub seen: usize,
    /// There are no others: all processes could be looked at.
    pub all: bool,
}

impl Writers {
    /// What is known if the library has said whether a process has the file open to count.
    pub fn with_counting(self, counting: Option<bool>) -> Self {
        match counting {
            Some(false) => Self { seen: 0, all: true },
            Some(true) => Self {
                seen: self.seen.max(1),
                all: self.all && self.seen > 0,
            },
            None => self,
        }
    }

    /// As text of a terminal, which may have UTF-8.
    pub fn text(self, utf8: bool) -> String {
        match self {
            Self { all: true, seen } => seen.to_string(),
            Self { seen: 0, .. } => "?".to_string(),
            Self { seen, .. } if utf8 => format!("≥{seen}"),
            Self { seen, .. } => format!(">={seen}"),
        }
    }
}

/// Look into the maps of all processes of /proc for these files.
pub fn of(files: &[Metadata]) -> Vec<Writers> {
    let mut found = vec![Writers::default(); files.len()];
    let Ok(processes) = fs::read_dir("/proc") else {
        return found;
    };
    let wanted: Vec<_> = files.iter().map(|m| (device(m.dev()), m.ino())).collect();
    found.iter_mut().for_each(|w| w.all = true);
    for process in processes.flatten() {
        let name = process.file_name();
        if !name.as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        match fs::read(process.path().join("maps")) {
            Ok(maps) => {
                let maps = String::from_utf8_lossy(&maps);
                for (file, writers) in wanted.iter().zip(&mut found) {
                    if maps.lines().any(|line| is_writable(line, file)) {
                        writers.seen += 1;
                    }
                }
            }
            // It has ended meanwhile.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound || e.raw_os_error() == Some(3) => {}
            Err(_) => found.iter_mut().for_each(|w| w.all = false),
        }
    }
    found
}

/// As maps(5) writes it.
fn device(dev: u64) -> String {
    let major = (dev >> 8 & 0xfff) | (dev >> 32 & !0xfff);
    let minor = (dev & 0xff) | (dev >> 12 & !0xff);
    format!("{major:02x}:{minor:02x}")
}

/// Whether a line of maps(5) is of that device and inode, and is shared and writable.
fn is_writable(line: &str, (device, inode): &(String, u64)) -> bool {
    let mut fields = line.split_ascii_whitespace();
    let rights = fields.nth(1).unwrap_or_default().as_bytes();
    rights.get(1) == Some(&b'w')
        && rights.get(3) == Some(&b's')
        && fields.nth(1) == Some(device)
        && fields.next().and_then(|n| n.parse().ok()) == Some(*inode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let file = (device(0x1a), 77);
        let line = "7f00-7f01 rw-s 00000000 00:1a 77      /dev/shm/percpu.x";
        assert!(is_writable(line, &file));
        for other in [
            line.replace("rw-s", "r--s"),
            line.replace("rw-s", "rw-p"),
            line.replace("00:1a", "00:1b"),
            line.replace(" 77 ", " 78 "),
            String::new(),
            "7f00-7f01 rw-p 00000000 00:00 0".to_string(),
        ] {
            assert!(!is_writable(&other, &file), "{other}");
        }
    }

    #[test]
    fn the_library_knows_more() {
        let say = |seen, all, counting| {
            let writers = Writers { seen, all };
            writers.with_counting(counting).text(true)
        };
        assert_eq!(say(0, false, Some(false)), "0");
        assert_eq!(say(0, false, Some(true)), "≥1");
        assert_eq!(say(0, true, Some(true)), "≥1");
        assert_eq!(say(2, false, Some(true)), "≥2");
        assert_eq!(say(2, true, Some(true)), "2");
        assert_eq!(say(0, false, None), "?");
    }

    #[test]
    fn texts() {
        let say = |seen, all| Writers { seen, all }.text(true);
        assert_eq!(
            [say(3, true), say(1, false), say(0, true), say(0, false)],
            ["3", "≥1", "0", "?"]
        );
        assert_eq!(
            Writers {
                seen: 1,
                all: false
            }
            .text(false),
            ">=1"
        );
    }
}
