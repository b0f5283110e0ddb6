// SPDX-License-Identifier: MIT
//! Pictures made of characters.

use unicode_width::UnicodeWidthStr;

use super::look::Look;
use crate::model::Distribution;
use crate::numbers::{duration, short, with_unit};

/// Numbers, the latest last, in one line, each by its part of the greatest one. NaN is a gap.
pub fn sparkline(values: &[f64], columns: usize, look: Look) -> String {
    let levels = look.levels();
    let (least, most) = range(values);
    let skip = values.len().saturating_sub(columns);
    let cells = values.iter().skip(skip).map(|v| {
        if v.is_nan() {
            return ' ';
        }
        levels[level(*v, least, most, 7)]
    });
    let missing = columns.saturating_sub(values.len());
    std::iter::repeat_n(' ', missing).chain(cells).collect()
}

/// From 0, or the least number if that is below, to the greatest.
fn range(values: &[f64]) -> (f64, f64) {
    let finite = values.iter().copied().filter(|v| v.is_finite());
    finite.fold((0.0, 0.0), |(least, most), v| (v.min(least), v.max(most)))
}

/// A number's part of a range in so many steps. Only what is at the lower end has none.
fn level(v: f64, least: f64, most: f64, steps: usize) -> usize {
    if most <= least || v <= least {
        return 0;
    }
    let part = ((v - least) / (most - least)).min(1.0);
    ((part * steps as f64).ceil() as usize).clamp(1, steps)
}

/// The columns of three digits, a space, a prefix with its unit, and the axis.
const AXIS: usize = 10;

/// A plot with axes in so many lines and columns, the latest at the right. `seconds` is how long
/// before the latest a number some columns to the left is.
pub fn plot(
    values: &[f64],
    (columns, lines): (usize, usize),
    seconds: &dyn Fn(usize) -> Option<f64>,
    unit: &str,
    look: Look,
) -> Vec<String> {
    let (width, height) = (columns.saturating_sub(AXIS), lines.saturating_sub(2));
    if width == 0 || height == 0 {
        return Vec::new();
    }
    let (least, most) = range(values);
    let shown = &values[values.len().saturating_sub(width)..];
    let gap = " ".repeat(width - shown.len());
    let mut out = Vec::new();
    for line in (0..height).rev() {
        let label = match line {
            _ if line + 1 == height => with_unit(most, unit),
            0 => with_unit(least, unit),
            _ if line == height / 2 && height > 4 => {
                let part = (line + 1) as f64 / height as f64;
                with_unit(least + (most - least) * part, unit)
            }
            _ => String::new(),
        };
        let axis = if label.is_empty() {
            look.pick('│', '|')
        } else {
            look.pick('┤', '+')
        };
        let cells: String = shown
            .iter()
            .map(|v| cell(*v, (least, most), line, height, look))
            .collect();
        let label = look.right(&look.clean(&label), AXIS - 1);
        out.push(format!("{label}{axis}{gap}{cells}"));
    }
    let corner = look.pick("└", "+");
    let base = look.pick("─", "-").repeat(width);
    out.push(format!("{}{corner}{base}", " ".repeat(AXIS - 1)));
    let oldest = seconds(shown.len().saturating_sub(1)).filter(|s| *s > 0.0);
    out.push(times(oldest, shown.len(), columns, look));
    out
}

/// Under a plot of so many numbers: how long before now it begins, and where now is.
fn times(oldest: Option<f64>, shown: usize, columns: usize, look: Look) -> String {
    let from = oldest.map_or(String::new(), |s| format!("-{}", span(s)));
    let pad = " ".repeat(columns.saturating_sub(shown + 1));
    let line = pad + &look.clean(&from);
    // Without room for it, the start has no label.
    let room = columns.saturating_sub(4);
    let line = if line.width() > room { "" } else { &line };
    format!("{} now", look.fit(line, room))
}

/// How long something lasted: below 10 s with a tenth.
pub fn span(seconds: f64) -> String {
    let tenths = (seconds * 10.0).round();
    if tenths >= 100.0 || tenths % 10.0 == 0.0 {
        return duration(seconds.round());
    }
    format!("{:.1}s", tenths / 10.0)
}

/// What a line of a plot has of a number.
fn cell(v: f64, (least, most): (f64, f64), line: usize, height: usize, look: Look) -> char {
    if v.is_nan() {
        return ' ';
    }
    let parts = level(v, least, most, height * 8);
    match parts.saturating_sub(line * 8) {
        0 if line == 0 => look.levels()[0],
        0 => ' ',
        n => look.levels()[n.min(8) - 1],
    }
}

/// The buckets of a distribution, joined to so many lines: where they end, a bar, a count.
pub fn distribution(
    d: &Distribution,
    unit: &str,
    (columns, lines): (usize, usize),
    look: Look,
) -> Vec<String> {
    const END: usize = 11;
    const COUNT: usize = 7;
    let each = d.buckets().len().div_ceil(lines.max(1)).max(1);
    let joined: Vec<(f64, f64)> = d
        .buckets()
        .chunks(each)
        .map(|b| {
            let end = b.last().map_or(f64::INFINITY, |b| b.upper);
            (end, b.iter().map(|b| b.count as f64).sum())
        })
        .collect();
    let most = joined.iter().map(|(_, n)| *n).fold(0.0, f64::max);
    let width = columns.saturating_sub(END + COUNT + 3);
    let line = |(end, n): &(f64, f64)| {
        let below = look.pick("≤", "<=");
        let end = format!("{below} {}", look.clean(&with_unit(*end, unit)));
        let (end, n_text) = (look.right(&end, END), look.right(&short(*n), COUNT));
        format!("{end} {} {n_text}", bar(*n / most, width, look))
    };
    joined.iter().map(line).collect()
}

/// A part of a whole, 0 to 1.
pub fn bar(part: f64, columns: usize, look: Look) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let part = if part.is_finite() {
        part.clamp(0.0, 1.0)
    } else {
        0.0
    };
    let eighths = (part * (columns * 8) as f64).round() as usize;
    let eighths = if part > 0.0 { eighths.max(1) } else { 0 };
    let text = if look.utf8 {
        "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
    } else {
        "#".repeat(eighths.div_ceil(8))
    };
    let missing = columns.saturating_sub(text.width());
    text + &" ".repeat(missing)
}

/// For each CPU its level, 0 to 7, by its part of the greatest.
pub fn heat(cpus: &[f64]) -> Vec<usize> {
    let (least, most) = range(cpus);
    cpus.iter().map(|v| level(*v, least, most, 7)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::look::Colors;
    use super::*;

    const UTF8: Look = Look {
        utf8: true,
        colors: Colors::None,
    };
    const ASCII: Look = Look {
        utf8: false,
        colors: Colors::None,
    };

    #[test]
    fn sparklines_show_parts_of_the_greatest() {
        let values = [0.0, 1.0, 4.0, f64::NAN, 7.0];
        assert_eq!(sparkline(&values, 6, UTF8), " ▁▂▅ █");
        assert_eq!(sparkline(&values, 3, ASCII), "= #");
        assert_eq!(sparkline(&[0.0; 2], 2, UTF8), "▁▁");
        assert_eq!(sparkline(&[], 2, UTF8), "  ");
        assert_eq!(sparkline(&[-1.0, 0.0, 1.0], 3, UTF8), "▁▅█");
        assert_eq!(sparkline(&[f64::INFINITY, 1.0], 2, UTF8), "██");
    }

    #[test]
    fn plots_have_axes() {
        let seconds = |n: usize| Some(n as f64);
        let lines = plot(&[0.0, 50.0, 100.0], (22, 5), &seconds, "", UTF8);
        let expected = [
            "      100┤           █",
            "         │          ▄█",
            "        0┤         ▁██",
            "         └────────────",
        ];
        assert_eq!(lines[..4], expected);
        assert!(lines[4].ends_with(" now"), "{lines:?}");
        let many: Vec<f64> = (0..99).map(|i| f64::from(i) * 1024.0).collect();
        let lines = plot(&many, (30, 4), &seconds, "bytes", UTF8);
        assert_eq!(lines[0].split('┤').next(), Some(" 98.0 KiB"));
        assert_eq!(lines[3], "         -19s              now");
    }

    #[test]
    fn spans_have_a_tenth_when_they_are_short() {
        for (seconds, text) in [
            (0.1, "0.1s"),
            (3.2, "3.2s"),
            (1.0, "1s"),
            (39.4, "39s"),
            (61.0, "1m 1s"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }

    #[test]
    fn plots_are_of_any_size() {
        for columns in 0..30 {
            for lines in 0..10 {
                for values in [&[][..], &[1.0], &[f64::NAN, -3.0, 1e300, f64::INFINITY]] {
                    for line in plot(values, (columns, lines), &|_| Some(1.0), "bytes", ASCII) {
                        assert_eq!(line.width(), columns, "{line:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn bars_are_parts() {
        assert_eq!(bar(0.5, 4, UTF8), "██  ");
        assert_eq!(bar(0.0, 4, UTF8), "    ");
        assert_eq!(bar(0.001, 2, UTF8), "▏ ");
        assert_eq!(bar(1.0, 2, ASCII), "##");
        assert_eq!(bar(f64::NAN, 2, ASCII), "  ");
    }

    #[test]
    fn heat_is_relative() {
        assert_eq!(heat(&[0.0, 1.0, 70.0]), [0, 1, 7]);
        assert_eq!(heat(&[0.0, 0.0]), [0, 0]);
    }
}
