// SPDX-License-Identifier: MIT
//! Names and values in variables of the environment: `a=1,b=2`, with `%2C` and the like in values.

use crate::failure::{Exit, Failure};

/// Those of a variable. It fails if the variable has anything else.
pub fn of_environment(variable: &str) -> Result<Vec<(String, String)>, Failure> {
    let text = std::env::var(variable).unwrap_or_default();
    parse(&text).ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            format!(
                "{variable} is wrong: give NAME=VALUE,NAME=VALUE, with %2C for a comma in a value"
            ),
        )
    })
}

fn parse(text: &str) -> Option<Vec<(String, String)>> {
    let parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=')?;
            let name = decoded(name.trim())?;
            (!name.is_empty()).then_some((name, decoded(value.trim())?))
        })
        .collect()
}

/// Replace `%XX` by the byte. `None` if there are no two digits, or no UTF-8 comes out.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(b) = bytes.next() {
        if b != b'%' {
            out.push(b);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        out.push((digit()? << 4 | digit()?) as u8);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn pairs_are_decoded() {
        let pairs = parse(" a=1, b.c = x%2Cy=z%C3%BC ,").unwrap();
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(pairs, [("a", "1"), ("b.c", "x,y=zü")]);
        assert_eq!(parse(""), Some(Vec::new()));
        for wrong in ["a", "=1", "a=%2", "a=%GG", "a=%FF", "a=1,b"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
