// SPDX-License-Identifier: MIT
//! What a collector says, and what follows from it.

use std::time::{Duration, SystemTime};

/// Why metrics were not accepted.
#[derive(Debug)]
pub struct Trouble {
    /// What troubles that are the same have in common.
    pub kind: String,
    /// It follows the URL.
    pub sentence: String,
    pub again: Again,
}

/// When to try again.
#[derive(Debug, PartialEq)]
pub enum Again {
    /// When the next push is due: the same would be refused again.
    Due,
    /// Soon, and later each time.
    Soon,
    /// After a time that the collector gave.
    After(Duration),
}

impl Trouble {
    pub fn new(kind: impl Into<String>, sentence: impl Into<String>, again: Again) -> Self {
        Self {
            kind: kind.into(),
            sentence: sentence.into(),
            again,
        }
    }
}

/// What a collector says of metrics that it took.
#[derive(Debug, Default, PartialEq)]
pub struct Taken {
    /// How many points it refused.
    pub rejected: i64,
    pub message: String,
}

/// As much of a text as a log has room for.
pub fn short(text: &str) -> String {
    const MOST: usize = 200;
    let text = text.trim();
    let mut out: String = text.chars().take(MOST).collect();
    if out.len() < text.len() {
        out.push_str("...");
    }
    out
}

/// The time of a `Retry-After`: seconds, or a date.
pub fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_has_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (text, seconds) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:27 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            let time = retry_after(text, now);
            assert_eq!(time, seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn texts_of_others_are_cut() {
        assert_eq!(short(" a\n"), "a");
        assert_eq!(short(&"ü".repeat(201)), "ü".repeat(200) + "...");
    }
}
