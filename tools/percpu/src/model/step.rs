// SPDX-License-Identifier: MIT
//! What became of a value between two looks.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{float, Distribution, Value};

/// A number with all its digits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Number {
    Whole(u64),
    Signed(i64),
    Float(#[serde(with = "float")] f64),
}

impl Number {
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Whole(n) => n as f64,
            Self::Signed(n) => n as f64,
            Self::Float(x) => x,
        }
    }

    fn signed(n: i128) -> Self {
        match (u64::try_from(n), i64::try_from(n)) {
            (Ok(n), _) => Self::Whole(n),
            (_, Ok(n)) => Self::Signed(n),
            _ => Self::Float(n as f64),
        }
    }
}

/// The shortest text that is read as the same number, as Prometheus takes it.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(n) => n.fmt(f),
            Self::Signed(n) => n.fmt(f),
            Self::Float(x) => match float::word(*x) {
                Some(word) => f.write_str(word),
                None => {
                    let text = format!("{:?}", x + 0.0); // -0 becomes 0
                    f.write_str(text.strip_suffix(".0").unwrap_or(&text))
                }
            },
        }
    }
}

/// What became of a value.
#[derive(Debug)]
pub enum Step {
    Same,
    By(Number),
    /// What was observed in between.
    Interval(Distribution),
    /// A counter or a histogram is smaller than it was, or of another kind: it began anew.
    Reset,
    /// It is another one, of which there is no difference.
    Other,
}

impl Step {
    pub fn between(before: &Value, after: &Value) -> Self {
        use Value as V;
        match (before, after) {
            (V::Count(a), V::Count(b)) => b.checked_sub(*a).map_or(Self::Reset, by_whole),
            (V::Amount(a), V::Amount(b)) if b < a => Self::Reset,
            (V::Level(a), V::Level(b)) => match i128::from(*b) - i128::from(*a) {
                0 => Self::Same,
                n => Self::By(Number::signed(n)),
            },
            (V::Amount(a), V::Amount(b))
            | (V::Measure(a), V::Measure(b))
            | (V::Latest(a, _), V::Latest(b, _)) => by_float(*a, *b),
            (V::Distribution(a), V::Distribution(b)) => match b.since(a) {
                Some(d) if d.count() == 0 => Self::Same,
                Some(d) => Self::Interval(d),
                None => Self::Reset,
            },
            (V::Extrema { min: a, max: b }, V::Extrema { min: c, max: d }) => {
                let same = a.to_bits() == c.to_bits() && b.to_bits() == d.to_bits();
                if same {
                    Self::Same
                } else {
                    Self::Other
                }
            }
            (V::Info, V::Info) => Self::Same,
            _ => Self::Reset,
        }
    }

    /// By how much it grew: a distribution by its observations.
    pub fn delta(&self) -> Option<Number> {
        match self {
            Self::Same => Some(Number::Whole(0)),
            Self::By(n) => Some(*n),
            Self::Interval(d) => Some(Number::Whole(d.count())),
            Self::Reset | Self::Other => None,
        }
    }
}

fn by_whole(n: u64) -> Step {
    if n == 0 {
        Step::Same
    } else {
        Step::By(Number::Whole(n))
    }
}

fn by_float(a: f64, b: f64) -> Step {
    match b - a {
        _ if a.to_bits() == b.to_bits() || a == b => Step::Same,
        d if d.is_finite() => Step::By(Number::Float(d)),
        _ => Step::Other,
    }
}

impl Value {
    /// The number that is printed: of a distribution the count.
    pub fn exact(&self) -> Option<Number> {
        Some(match self {
            Self::Count(n) => Number::Whole(*n),
            Self::Level(n) if *n < 0 => Number::Signed(*n),
            Self::Level(n) => Number::Whole(n.unsigned_abs()),
            Self::Amount(x) | Self::Measure(x) | Self::Latest(x, _) => Number::Float(*x),
            Self::Distribution(d) => Number::Whole(d.count()),
            Self::Extrema { .. } | Self::Info => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact() {
        for (n, text) in [
            (Number::Whole(u64::MAX), "18446744073709551615"),
            (Number::Signed(i64::MIN), "-9223372036854775808"),
            (Number::Float(0.1), "0.1"),
            (Number::Float(5.0), "5"),
            (Number::Float(-0.0), "0"),
            (Number::Float(1e-7), "1e-7"),
            (Number::Float(1e300), "1e300"),
            (Number::Float(f64::INFINITY), "+Inf"),
            (Number::Float(f64::NEG_INFINITY), "-Inf"),
            (Number::Float(f64::NAN), "NaN"),
        ] {
            assert_eq!(n.to_string(), text);
            let json = serde_json::to_string(&n).unwrap();
            let back: Number = serde_json::from_str(&json).unwrap();
            assert_eq!(back.to_string(), text, "{json}");
        }
    }

    #[test]
    fn differences() {
        let say = |a, b| format!("{:?}", Step::between(&a, &b));
        let max = i64::MAX;
        assert_eq!(say(Value::Count(1), Value::Count(1)), "Same");
        assert_eq!(
            say(Value::Count(1), Value::Count(u64::MAX)),
            format!("By(Whole({}))", u64::MAX - 1)
        );
        assert_eq!(say(Value::Count(2), Value::Count(1)), "Reset");
        assert_eq!(say(Value::Level(2), Value::Level(1)), "By(Signed(-1))");
        assert_eq!(
            say(Value::Level(-max - 1), Value::Level(max)),
            format!("By(Whole({}))", u64::MAX)
        );
        assert_eq!(say(Value::Amount(1.0), Value::Amount(0.5)), "Reset");
        assert_eq!(
            say(Value::Measure(1.0), Value::Measure(0.5)),
            "By(Float(-0.5))"
        );
        assert_eq!(
            say(Value::Measure(f64::NAN), Value::Measure(f64::NAN)),
            "Same"
        );
        assert_eq!(say(Value::Measure(1.0), Value::Measure(f64::NAN)), "Other");
        assert_eq!(say(Value::Count(1), Value::Level(1)), "Reset");
        let extrema = |max| Value::Extrema { min: 0.0, max };
        assert_eq!(say(extrema(1.0), extrema(1.0)), "Same");
        assert_eq!(say(extrema(1.0), extrema(2.0)), "Other");
    }
}
