// SPDX-License-Identifier: MIT
//! Files that others wrote, in all formats.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::names::Escaping;
use super::openmetrics::OpenMetrics;
use super::protobuf::Protobuf;
use super::text::Text;
use super::{walk, Format, Table, Walk};
use crate::model::{About, Distribution, Kind, Series, Value};

const TEXTS: [&str; 16] = [
    "",
    "a",
    "a_total",
    "a.total",
    "_total",
    "_info",
    "a_info",
    "a_bucket",
    "a_created",
    "le",
    "segment",
    "__name__",
    "\"\\\n\r",
    "9\u{202e}",
    "percpu_segment_up",
    "größe_seconds",
];

const COUNTS: [u64; 4] = [0, 1, i64::MAX as u64, u64::MAX];

/// The same numbers each time.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn text(&mut self) -> String {
        TEXTS[self.below(TEXTS.len())].to_string()
    }

    fn value(&mut self, kind: Kind) -> Value {
        let n = COUNTS[self.below(COUNTS.len())];
        let x = [f64::NAN, f64::INFINITY, -0.0, 1e300][self.below(4)];
        match kind {
            Kind::Counter if self.below(2) == 0 => Value::Amount(x),
            Kind::Counter => Value::Count(n),
            Kind::Gauge => Value::Latest(x, SystemTime::UNIX_EPOCH),
            Kind::Histogram => Value::Distribution(self.distribution(n)),
            Kind::Extrema => Value::Extrema { min: x, max: -x },
            Kind::Info => Value::Info,
        }
    }

    fn distribution(&mut self, n: u64) -> Distribution {
        let layout = [
            r#""summary""#,
            r#"{"octaves":{"low":-2,"high":2,"buckets":8}}"#,
            r#"{"octaves":{"low":1023,"high":-1074,"buckets":7}}"#,
            r#"{"octaves":{"low":-3,"high":3,"buckets":0}}"#,
            r#"{"octaves":{"low":-2,"high":2,"buckets":9}}"#,
            r#"{"own":[-1.0,0.5]}"#,
        ][self.below(6)];
        let buckets = format!(
            r#"[{{"lower":0.0,"upper":0.25,"count":{n},"sum":1.0}},
                {{"lower":2.0,"upper":"+Inf","count":{n},"sum":"NaN"}}]"#
        );
        let json = format!(r#"{{"count":{n},"sum":1.5,"layout":{layout},"buckets":{buckets}}}"#);
        serde_json::from_str(&json).unwrap()
    }

    fn series(&mut self) -> Series {
        let kinds = [
            Kind::Counter,
            Kind::Gauge,
            Kind::Histogram,
            Kind::Extrema,
            Kind::Info,
        ];
        let kind = kinds[self.below(kinds.len())];
        let about = About {
            id: 0,
            name: self.text(),
            help: self.text(),
            unit: self.text(),
            kind,
            labels: (0..self.below(4))
                .map(|_| (self.text(), self.text()))
                .collect(),
            since: SystemTime::UNIX_EPOCH + Duration::from_secs(self.below(2) as u64),
        };
        Series {
            about: Arc::new(about),
            value: Ok(self.value(kind)),
            family: None,
            details: None,
        }
    }
}

fn print<F: Format>(files: &[Walk<'_>], mut format: F) -> Vec<u8> {
    let mut all = Vec::new();
    walk(files, &|_, _| true, &mut format, &mut |more| {
        all.append(more);
    });
    all
}

/// Each type line names another metric, and no line has a letter that ends it.
fn check_text(text: &[u8]) {
    let text = std::str::from_utf8(text).unwrap();
    let types = text.lines().filter_map(|l| l.strip_prefix("# TYPE "));
    let mut names: Vec<_> = types.map(|l| l.rsplit_once(' ').unwrap().0).collect();
    let n = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), n, "{text}");
    let odd = |l: &&str| !l.starts_with('#') && !l.contains(' ');
    assert_eq!(text.lines().find(odd), None, "{text}");
}

/// The names of all samples.
fn samples(text: &[u8]) -> Vec<&str> {
    let text = std::str::from_utf8(text).unwrap();
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|l| match l.strip_prefix("{\"") {
            Some(quoted) => quoted.split_once("\",").unwrap().0,
            None => l.split_once('{').unwrap().0,
        })
        .collect()
}

#[test]
fn hostile_files_have_an_answer() {
    let mut random = Random(1);
    let mut printed = 0;
    for _ in 0..300 {
        let files: Vec<Vec<Series>> = (0..2)
            .map(|_| {
                let mut all: Vec<_> = (0..random.below(12)).map(|_| random.series()).collect();
                all.sort_by(|a, b| a.about.name.cmp(&b.about.name));
                all
            })
            .collect();
        let tables: Vec<_> = files
            .iter()
            .map(|series| Table::Series(series.iter().collect()))
            .collect();
        let labels = [("segment".to_string(), "\"x\"".to_string())];
        let walks: Vec<_> = tables
            .iter()
            .map(|table| Walk {
                table,
                labels: &labels,
            })
            .collect();
        for name in ["allow-utf-8", "underscores", "dots", "values"] {
            let escaping = Escaping::of(name).unwrap();
            let text = print(&walks, Text::new(escaping));
            check_text(&text);
            let same = print(&walks, OpenMetrics::new(escaping, false));
            assert_eq!(samples(&text), samples(&same));
            let open = print(&walks, OpenMetrics::new(escaping, true));
            check_text(&open[..open.len() - "# EOF\n".len()]);
            printed += open.len() + print(&walks, Protobuf::new(escaping)).len();
        }
    }
    assert!(printed > 1_000_000, "{printed}");
}

fn empty(name: &str, kind: Kind, value: Value) -> Series {
    let mut series = Random(1).series();
    let about = Arc::get_mut(&mut series.about).unwrap();
    about.name = name.to_string();
    about.kind = kind;
    about.labels = Vec::new();
    series.value = Ok(value);
    series
}

/// A metric of OpenMetrics has a name of its own, and its samples have those of the other formats.
#[test]
fn names_of_samples_are_the_same_in_all_formats() {
    let all = [
        empty("\tb_total", Kind::Counter, Value::Count(1)),
        empty(" b", Kind::Gauge, Value::Level(2)),
        empty("c_total", Kind::Counter, Value::Count(3)),
        empty("d_created", Kind::Gauge, Value::Level(4)),
        empty("d_total", Kind::Counter, Value::Count(5)),
        empty("e_info", Kind::Info, Value::Info),
        empty("e_total", Kind::Counter, Value::Count(6)),
    ];
    let labels = [("segment".to_string(), "x".to_string())];
    let walks = [Walk {
        table: &Table::Series(all.iter().collect()),
        labels: &labels,
    }];
    let text = print(&walks, Text::new(Escaping::Underscores));
    let open = print(&walks, OpenMetrics::new(Escaping::Underscores, false));
    let names = [
        "_b_total",
        "_b",
        "c_total",
        "d_created",
        "d_total",
        "e_info",
        "e_total",
    ];
    assert_eq!(
        (samples(&text), samples(&open)),
        (names.into(), names.into())
    );
    check_text(&open[..open.len() - "# EOF\n".len()]);
    let open = String::from_utf8(open).unwrap();
    let types = open.lines().filter_map(|l| l.strip_prefix("# TYPE "));
    let expected = [
        "_b_total unknown",
        "_b gauge",
        "c counter",
        "d_created gauge",
        "d_total unknown",
        "e info",
        "e_total unknown",
    ];
    assert_eq!(types.collect::<Vec<_>>(), expected);
}
