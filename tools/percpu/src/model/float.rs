// SPDX-License-Identifier: MIT
//! Doubles as text, and in JSON: that has no infinities, so they are strings.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use serde::Serializer;

pub fn serialize<S: Serializer>(x: &f64, to: S) -> Result<S::Ok, S::Error> {
    match word(*x) {
        Some(word) => to.serialize_str(word),
        None => to.serialize_f64(*x),
    }
}

/// What a double is called that is not finite.
pub fn word(x: f64) -> Option<&'static str> {
    if x.is_nan() {
        Some("NaN")
    } else if x.is_infinite() {
        Some(if x > 0.0 { "+Inf" } else { "-Inf" })
    } else {
        None
    }
}

/// A double in the shortest digits that are read as the same one. `plain` gets the exponent and how
/// many digits there are. It returns the text, if that needs no exponent.
pub fn written(x: f64, plain: impl Fn(i32, i32) -> Option<String>) -> String {
    if let Some(word) = word(x) {
        return word.to_string();
    }
    let text = format!("{x:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count() as i32;
    let exponent: i32 = exponent.parse().unwrap_or(0);
    plain(exponent, digits).unwrap_or_else(|| {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.abs())
    })
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    from.deserialize_any(Float)
}

struct Float;

impl Visitor<'_> for Float {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, \"+Inf\", \"-Inf\" or \"NaN\"")
    }

    fn visit_f64<E: Error>(self, x: f64) -> Result<f64, E> {
        Ok(x)
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<f64, E> {
        Ok(n as f64)
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<f64, E> {
        Ok(n as f64)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        match text {
            "+Inf" => Ok(f64::INFINITY),
            "-Inf" => Ok(f64::NEG_INFINITY),
            "NaN" => Ok(f64::NAN),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }
}
