// SPDX-License-Identifier: MIT
//! The token that clients must show, if the command line names a file with one.

use std::path::Path;

use axum::http::HeaderValue;
use base64::prelude::{Engine, BASE64_STANDARD};
use subtle::ConstantTimeEq;

use super::renewed::{read, Renewed};
use crate::failure::{Exit, Failure};

/// A longer one would not fit into a request.
const BYTES: usize = 4096;

pub struct Token(Renewed<Vec<u8>>);

impl Token {
    pub fn new(path: &Path) -> Result<Self, Failure> {
        let paths = vec![path.to_path_buf()];
        let path = path.to_path_buf();
        Renewed::new(paths, Box::new(move || load(&path))).map(Self)
    }

    pub fn renew(&self) {
        self.0.renew();
    }

    /// Whether a request shows the token: as `Authorization: Bearer TOKEN`, or as the password of
    /// any user.
    pub fn is_shown(&self, authorization: Option<&HeaderValue>) -> bool {
        let Some(shown) = authorization.and_then(|value| shown(value.as_bytes())) else {
            return false;
        };
        // It takes the same time for all tokens of the same length.
        shown.ct_eq(&self.0.get()).into()
    }
}

fn shown(authorization: &[u8]) -> Option<Vec<u8>> {
    let end = authorization.iter().position(|b| *b == b' ')?;
    let (scheme, rest) = authorization.split_at(end);
    let rest = rest.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(rest.to_vec());
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let both = BASE64_STANDARD.decode(rest).ok()?;
    let colon = both.iter().position(|b| *b == b':')?;
    Some(both[colon + 1..].to_vec())
}

fn load(path: &Path) -> Result<Vec<u8>, Failure> {
    let says = |exit, what: &str| Failure::new(exit, format!("{} {what}", path.display()));
    let (bytes, mode) = read(path)?;
    if mode & 0o006 != 0 {
        let what = "is open to all users: chmod o-rw it, and make a new token";
        return Err(says(Exit::Denied, what));
    }
    let token = bytes.trim_ascii();
    if token.is_empty() || token.len() > BYTES || !token.iter().all(u8::is_ascii_graphic) {
        let what = "has no token: one line of up to 4096 letters, digits and signs of ASCII";
        return Err(says(Exit::BadFile, what));
    }
    Ok(token.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_showing_a_token() {
        let is = |header: &str, token: &str| shown(header.as_bytes()) == Some(token.into());
        assert!(is("Bearer abc", "abc"));
        assert!(is("bearer  abc ", "abc"));
        assert!(is("Basic bWU6YTpi", "a:b"));
        assert!(is("BASIC OmFiYw==", "abc"));
        for nothing in [
            "",
            "abc",
            "Bearer",
            "Basic abc",
            "Basic YWJj",
            "Digest abc",
            "Basic ÿ",
        ] {
            assert_eq!(shown(nothing.as_bytes()), None, "{nothing}");
        }
    }
}
