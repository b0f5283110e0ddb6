// SPDX-License-Identifier: MIT
//! Doubles in JSON, which has no infinities: these are strings, as Prometheus writes them.

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
