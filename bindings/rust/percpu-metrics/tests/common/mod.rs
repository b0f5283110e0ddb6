// SPDX-License-Identifier: MIT
//! What the tests have in common: a file, and what a reader from outside finds in it.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use metrics::with_local_recorder;
use percpu::{Reader, Value};
use percpu_metrics::{Builder, Recorder};

/// The path of a file, which is removed in the end.
pub struct TemporaryFile(PathBuf);

impl TemporaryFile {
    pub fn new(what: &str) -> Self {
        let name = format!("percpu-metrics-{what}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A series that a reader has found.
#[derive(Debug)]
pub struct Series {
    pub value: Value,
    pub help: String,
    pub unit: String,
    pub overflows: (u64, u64),
}

/// All series of a segment, by `name{label="value",...}`.
pub struct Picture(BTreeMap<String, Series>);

impl Picture {
    pub fn of(path: &str) -> Self {
        let mut reader = Reader::open(path).unwrap();
        let picture = reader.read().unwrap();
        let all = picture.series().map(|s| {
            let labels: Vec<String> = s.labels().map(|(k, v)| format!("{k}={v:?}")).collect();
            let found = Series {
                value: s.value().unwrap(),
                help: s.help().into(),
                unit: s.unit().into(),
                overflows: s.overflows(),
            };
            (format!("{}{{{}}}", s.name(), labels.join(",")), found)
        });
        Self(all.collect())
    }

    pub fn get(&self, key: &str) -> &Series {
        self.0
            .get(key)
            .unwrap_or_else(|| panic!("no series {key} among {:?}", self.0.keys()))
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn counter(&self, key: &str) -> u64 {
        match &self.get(key).value {
            Value::Counter(n) => *n,
            other => panic!("{key} is {other:?}"),
        }
    }

    pub fn gauge(&self, key: &str) -> f64 {
        match &self.get(key).value {
            Value::FGauge(v) => *v,
            other => panic!("{key} is {other:?}"),
        }
    }

    pub fn histogram(&self, key: &str) -> &percpu::Snapshot {
        match &self.get(key).value {
            Value::Histogram(s) => s,
            other => panic!("{key} is {other:?}"),
        }
    }

    /// How often a problem of a name was told.
    pub fn problems(&self, metric: &str, problem: &str) -> u64 {
        let key = format!("metrics_problems_total{{metric={metric:?},problem={problem:?}}}");
        if self.has(&key) {
            self.counter(&key)
        } else {
            0
        }
    }

    /// How often any was told.
    pub fn all_problems(&self) -> u64 {
        let told = self
            .0
            .keys()
            .filter(|k| k.starts_with("metrics_problems_total"));
        told.map(|k| self.counter(k)).sum()
    }
}

/// Call f with a recorder for a file of its own, and return what a reader finds then.
pub fn picture_after(
    what: &str,
    change: impl Fn(Builder) -> Builder,
    f: impl Fn(Recorder),
) -> Picture {
    let file = TemporaryFile::new(what);
    let recorder = change(Builder::new(file.path())).build().unwrap();
    assert_eq!(recorder.fallback(), None);
    with_local_recorder(&recorder, || f(recorder));
    Picture::of(file.path())
}
