// SPDX-License-Identifier: MIT
//! Units as OpenTelemetry writes them: by the Unified Code for Units of Measure.

use std::borrow::Cow;

/// The words that Prometheus advises, and the codes of the same units.
const UNITS: [(&str, &str); 37] = [
    ("days", "d"),
    ("hours", "h"),
    ("minutes", "min"),
    ("seconds", "s"),
    ("milliseconds", "ms"),
    ("microseconds", "us"),
    ("nanoseconds", "ns"),
    ("bytes", "By"),
    ("kibibytes", "KiBy"),
    ("mebibytes", "MiBy"),
    ("gibibytes", "GiBy"),
    ("tebibytes", "TiBy"),
    ("kilobytes", "kBy"),
    ("megabytes", "MBy"),
    ("gigabytes", "GBy"),
    ("terabytes", "TBy"),
    ("bits", "bit"),
    ("meters", "m"),
    ("kilometers", "km"),
    ("grams", "g"),
    ("kilograms", "kg"),
    ("volts", "V"),
    ("amperes", "A"),
    ("joules", "J"),
    ("watts", "W"),
    ("celsius", "Cel"),
    ("kelvin", "K"),
    ("hertz", "Hz"),
    ("percent", "%"),
    ("ratio", "1"),
    // After "per".
    ("day", "d"),
    ("hour", "h"),
    ("minute", "min"),
    ("second", "s"),
    ("byte", "By"),
    ("bit", "bit"),
    ("meter", "m"),
];

fn code(unit: &str) -> Option<&'static str> {
    let found = UNITS
        .iter()
        .find(|(word, code)| *word == unit || *code == unit);
    found.map(|(_, code)| *code)
}

/// A unit of a segment as a code. What is counted, such as "things", is an annotation: "{things}".
pub fn of(unit: &str) -> Cow<'_, str> {
    if unit.is_empty() || is_annotation(unit) {
        return Cow::Borrowed(unit);
    }
    if let Some(code) = code(unit) {
        return Cow::Borrowed(code);
    }
    match unit.split_once("_per_") {
        Some((part, per)) if !part.is_empty() && !per.is_empty() => {
            Cow::Owned(format!("{}/{}", of(part), of(per)))
        }
        _ => Cow::Owned(annotation(unit)),
    }
}

fn fits(c: char) -> bool {
    c.is_ascii_graphic() && c != '{' && c != '}'
}

fn is_annotation(unit: &str) -> bool {
    let inner = unit.strip_prefix('{').and_then(|u| u.strip_suffix('}'));
    inner.is_some_and(|u| u.chars().all(fits))
}

fn annotation(unit: &str) -> String {
    let letters = unit.chars().map(|c| if fits(c) { c } else { '_' });
    format!("{{{}}}", letters.collect::<String>())
}

#[cfg(test)]
mod tests {
    #[test]
    fn units_are_codes() {
        for (unit, code) in [
            ("", ""),
            ("seconds", "s"),
            ("s", "s"),
            ("bytes", "By"),
            ("By", "By"),
            ("ratio", "1"),
            ("1", "1"),
            ("bytes_per_second", "By/s"),
            ("requests_per_second", "{requests}/s"),
            ("things", "{things}"),
            ("{things}", "{things}"),
            ("a b{ü}", "{a_b___}"),
            ("_per_", "{_per_}"),
        ] {
            assert_eq!(super::of(unit), code);
        }
    }
}
