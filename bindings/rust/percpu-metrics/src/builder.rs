// SPDX-License-Identifier: MIT
//! How a recorder is made.

use std::fmt;

use percpu::{Histogram, HistogramOptions, SegmentOptions};

use crate::names::Preset;
use crate::recorder::Recorder;

/// The cap of each family, unless the program sets another one.
const CAP: usize = 1000;

/// The largest cap.
const MOST: usize = 1_000_000;

/// Options of a recorder.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("percpu-doc-builder-{}", std::process::id()));
/// # let path = path.to_str().unwrap();
/// let recorder = percpu_metrics::Builder::new(path)
///     .labels("requests_total", &["method", "code"])
///     .buckets("request_seconds", &[0.001, 0.01, 0.1, 1.0])
///     .cap(200)
///     .build()?;
/// metrics::with_local_recorder(&recorder, || {
///     metrics::counter!("requests_total", "method" => "GET").increment(1); // code is ""
/// });
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), percpu_metrics::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder<'a> {
    name: &'a str,
    options: SegmentOptions<'a>,
    cap: usize,
    presets: Vec<(&'a str, Preset)>,
}

impl<'a> Builder<'a> {
    /// A recorder for the segment with that name: see [`install`](crate::install).
    pub fn new(name: &'a str) -> Self {
        Self {
            name,
            options: SegmentOptions::new().create().fallback(),
            cap: CAP,
            presets: Vec::new(),
        }
    }

    /// Open the segment with these options, instead of `create()` and `fallback()`.
    pub fn options(self, options: SegmentOptions<'a>) -> Self {
        Self { options, ..self }
    }

    /// The most series of each family, beside its overflow: 1 to 1000000. The default is 1000. A
    /// family that has series in the file keeps its cap.
    pub fn cap(self, cap: usize) -> Self {
        Self { cap, ..self }
    }

    /// The names of a metric's labels, in any order, whatever its first use has.
    pub fn labels(mut self, metric: &'a str, labels: &[&str]) -> Self {
        self.preset(metric).labels = Some(labels.iter().map(|l| (*l).into()).collect());
        self
    }

    /// The bounds of a histogram, in its own unit, rising and finite, up to 512. Others are an error
    /// of [`Builder::build`].
    pub fn buckets(mut self, metric: &'a str, bounds: &[f64]) -> Self {
        self.preset(metric).bounds = Some(bounds.into());
        self
    }

    fn preset(&mut self, metric: &'a str) -> &mut Preset {
        let at = match self.presets.iter().position(|p| p.0 == metric) {
            Some(at) => at,
            None => {
                self.presets.push((metric, Preset::default()));
                self.presets.len() - 1
            }
        };
        &mut self.presets[at].1
    }

    /// Open the segment, and return a recorder for it: for
    /// [`metrics::with_local_recorder`], or to be wrapped by a layer.
    ///
    /// The segment stays open until the process ends.
    pub fn build(self) -> Result<Recorder, Error> {
        if !(1..=MOST).contains(&self.cap) {
            return Err(Error::Cap(self.cap));
        }
        for (metric, preset) in &self.presets {
            if let Some(bounds) = &preset.bounds {
                Histogram::new(&HistogramOptions::new().bounds(bounds))
                    .map_err(|e| Error::Buckets((*metric).into(), e))?;
            }
        }
        let segment = self.options.open(self.name)?;
        Ok(Recorder::new(segment, self.name, self.cap, self.presets))
    }

    /// The same, and let all macros of the facade use it.
    pub fn install(self) -> Result<Recorder, Error> {
        let recorder = self.build()?;
        metrics::set_global_recorder(recorder).map_err(|_| Error::Installed)?;
        Ok(recorder)
    }
}

/// Why there is no recorder.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The segment could not be opened.
    Segment(percpu::Error),
    /// A cap of families that is not 1 to 1000000.
    Cap(usize),
    /// Bounds that the histogram of that name cannot have, and why.
    Buckets(String, percpu::Error),
    /// The program has installed a recorder before.
    Installed,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment(e) => e.fmt(f),
            Self::Cap(cap) => write!(f, "a cap of {cap} series: 1 to {MOST}"),
            Self::Buckets(metric, e) => write!(f, "the buckets of \"{metric}\": {e}"),
            Self::Installed => f.write_str("the program has installed a recorder before"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Segment(e) | Self::Buckets(_, e) => Some(e),
            Self::Cap(_) | Self::Installed => None,
        }
    }
}

impl From<percpu::Error> for Error {
    fn from(e: percpu::Error) -> Self {
        Self::Segment(e)
    }
}
