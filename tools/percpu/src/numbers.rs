// SPDX-License-Identifier: MIT
//! Numbers as people read them.

use crate::model::Number;

const THOUSANDS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
const PARTS: [&str; 5] = ["", "m", "µ", "n", "p"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// In at most 6 columns and a sign: `0`, `7`, `999`, `1.50k`, `12.3M`, `-4.00G`, `0.0250`, `25.0µ`,
/// `1e288`. There is no `m`: behind a rate or a time it reads as minutes.
pub fn short(x: f64) -> String {
    let size = x.abs();
    if !x.is_finite() {
        return x.to_string();
    }
    if size == 0.0 || (size < 1000.0 && size == size.trunc()) {
        return format!("{x:.0}");
    }
    if (0.0995..0.9995).contains(&size) {
        return format!("{x:.3}");
    }
    if (0.0009995..0.0995).contains(&size) {
        return format!("{x:.4}");
    }
    if size < 0.9995 {
        return scaled(x, &PARTS, |v| v * 1000.0, |v| v < 1.0);
    }
    scaled(x, &THOUSANDS, |v| v / 1000.0, |v| v >= 999.5)
}

/// With the unit where one is known: seconds as `1.50 ms`, bytes as `3.00 MiB`, others as
/// [`short`], and the unit behind it.
pub fn with_unit(x: f64, unit: &str) -> String {
    match unit {
        "" => short(x),
        "seconds" if x.abs() >= 100.0 => duration(x),
        "seconds" if x != 0.0 && x.is_finite() => {
            let n = scaled(x, &PARTS, |v| v * 1000.0, |v| v < 0.9995);
            let digits = n.trim_end_matches(char::is_alphabetic);
            format!("{digits} {}s", &n[digits.len()..])
        }
        "bytes" if x.is_finite() => {
            let n = scaled(x, &BINARY, |v| v / 1024.0, |v| v >= 1023.5);
            let digits = n.trim_end_matches(char::is_alphabetic);
            format!("{digits} {}B", &n[digits.len()..])
        }
        "seconds" => format!("{} s", short(x)),
        "ratio" if x.is_finite() => format!("{} %", three_digits(x * 100.0)),
        unit => format!("{} {unit}", short(x)),
    }
}

/// All digits of a whole number, and six of others, in a unit that is said elsewhere.
pub fn digits(n: Number) -> String {
    match n {
        Number::Float(x) if x.is_finite() && n.to_string().len() > 9 => {
            let size = x.abs();
            if x == x.trunc() && size < 1e15 {
                return n.to_string();
            }
            if (1e-4..1e9).contains(&size) {
                let before = (size.log10().floor() as i32).max(0) as usize;
                format!("{x:.*}", 5usize.saturating_sub(before))
            } else {
                format!("{x:.5e}")
            }
        }
        _ => n.to_string(),
    }
}

/// How long something was ago, or lasted, in two units at most: `45s`, `3m 12s`, `2d 4h`.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return seconds.to_string();
    }
    // Beyond, days are no help.
    if seconds.abs() >= 1e18 {
        return format!("{seconds:.0e}s");
    }
    let sign = if seconds < 0.0 { "-" } else { "" };
    let s = seconds.abs() as u64;
    let (large, small) = match s {
        0..60 => return format!("{sign}{s}s"),
        60..3600 => ((s / 60, "m"), (s % 60, "s")),
        3600..86400 => ((s / 3600, "h"), (s / 60 % 60, "m")),
        _ => ((s / 86400, "d"), (s / 3600 % 24, "h")),
    };
    format!("{sign}{}{} {}{}", large.0, large.1, small.0, small.1)
}

/// Scale by steps for as long as `again` says so, and there is a name for it.
fn scaled(x: f64, names: &[&str], step: fn(f64) -> f64, again: fn(f64) -> bool) -> String {
    let (mut v, mut i) = (x, 0);
    while i + 1 < names.len() && v != 0.0 && again(v.abs()) {
        v = step(v);
        i += 1;
    }
    if v != 0.0 && (again(v.abs()) || v.abs() < 0.005) {
        return format!("{x:.0e}");
    }
    format!("{}{}", three_digits(v), names.get(i).unwrap_or(&""))
}

fn three_digits(x: f64) -> String {
    match x.abs() {
        0.0 => "0".to_string(),
        v if v >= 1e6 => format!("{x:.0e}"),
        v if v >= 99.95 => format!("{x:.0}"),
        v if v >= 9.995 => format!("{x:.1}"),
        _ => format!("{x:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (x, text) in [
            (0.0, "0"),
            (7.0, "7"),
            (999.0, "999"),
            (999.9, "1.00k"),
            (1500.0, "1.50k"),
            (12.34, "12.3"),
            (12_345_678.0, "12.3M"),
            (-4e9, "-4.00G"),
            (0.000_025, "25.0µ"),
            (0.000_999, "999µ"),
            (0.000_999_9, "0.0010"),
            (-0.025, "-0.0250"),
            (0.25, "0.250"),
            (0.9996, "1.00"),
            (-0.9994, "-0.999"),
            (f64::INFINITY, "inf"),
            (u64::MAX as f64, "18.4E"),
            (1e21, "1e21"),
            (-3e287, "-3e287"),
            (1e-12, "1.00p"),
            (2e-300, "2e-300"),
        ] {
            assert_eq!(short(x), text);
        }
    }

    #[test]
    fn six_digits_are_enough() {
        for (n, text) in [
            (Number::Whole(u64::MAX), "18446744073709551615"),
            (Number::Float(0.1), "0.1"),
            (Number::Float(1.0 / 3.0), "0.33333"),
            (Number::Float(12_345.678_912_3), "12345.7"),
            (Number::Float(123_456_789.125), "123456789"),
            (Number::Float(1.0 / 3e9), "3.33333e-10"),
            (Number::Float(1_796_017_089.0), "1796017089"),
            (Number::Float(f64::NAN), "NaN"),
        ] {
            assert_eq!(digits(n), text);
        }
    }

    #[test]
    fn units_are_known() {
        for (x, unit, text) in [
            (0.0015, "seconds", "1.50 ms"),
            (1.0, "seconds", "1.00 s"),
            (0.0, "seconds", "0 s"),
            (200.0, "seconds", "3m 20s"),
            (3.0 * 1024.0 * 1024.0, "bytes", "3.00 MiB"),
            (0.0, "bytes", "0 B"),
            (0.125, "ratio", "12.5 %"),
            (3.0, "requests", "3 requests"),
            (3.0, "", "3"),
            (1e-300, "seconds", "1e-300 s"),
            (1e300, "seconds", "1e300s"),
            (1e300, "bytes", "1e300 B"),
            (1e300, "ratio", "1e302 %"),
            (1e300, "", "1e300"),
        ] {
            assert_eq!(with_unit(x, unit), text);
        }
    }

    #[test]
    fn times_have_two_units() {
        for (s, text) in [
            (5.9, "5s"),
            (192.0, "3m 12s"),
            (7260.0, "2h 1m"),
            (187_200.0, "2d 4h"),
        ] {
            assert_eq!(duration(s), text);
        }
    }
}
