// SPDX-License-Identifier: MIT
//! A series that changed between two looks, for `watch` and `diff`.

use serde::Serialize;

use crate::model::snapshot::{labels, Figures};
use crate::model::{full_name, Distribution, Kind, Number, Step, Value};
use crate::numbers::{digits, short};
use crate::terminal::Terminal;

use super::show_table::{figures, value};
use super::table::Line;

/// What happened to a series besides growing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    New,
    Gone,
    Reset,
}

impl Event {
    pub fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Gone => "gone",
            Self::Reset => "reset",
        }
    }
}

/// In JSON, what there is not is null.
#[derive(Debug, Serialize)]
pub struct Changed {
    pub name: String,
    #[serde(with = "labels")]
    pub labels: labels::Labels,
    pub kind: Kind,
    pub unit: String,
    pub event: Option<Event>,
    pub before: Option<Number>,
    /// Of a histogram: how many observations it has.
    pub value: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Number>,
    pub delta: Option<Number>,
    /// By how much it grew in a second.
    pub rate: Option<Number>,
    /// What a histogram got in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// Name and labels as text.
    #[serde(skip)]
    pub series: String,
    /// The value as text.
    #[serde(skip)]
    text: String,
}

#[derive(Debug, Serialize)]
pub struct Interval {
    count: u64,
    sum: Number,
    #[serde(flatten)]
    figures: Figures,
    #[serde(skip)]
    distribution: Distribution,
}

impl Changed {
    /// A series of that name, with neither value nor change.
    pub fn new(name: &str, labels: &labels::Labels, kind: Kind, unit: &str) -> Self {
        Self {
            name: name.to_string(),
            labels: labels.clone(),
            kind,
            unit: unit.to_string(),
            event: None,
            before: None,
            value: None,
            min: None,
            max: None,
            delta: None,
            rate: None,
            interval: None,
            series: full_name(name, labels),
            text: String::new(),
        }
    }

    pub fn with_value(mut self, v: &Value) -> Self {
        self.value = v.exact();
        self.text = value(v);
        if let Value::Extrema { min, max } = v {
            (self.min, self.max) = (Some(Number::Float(*min)), Some(Number::Float(*max)));
        }
        self
    }

    /// What became of it in so many seconds.
    pub fn with_step(mut self, before: &Value, step: Step, seconds: f64) -> Self {
        self.before = before.exact();
        self.grow(step.delta(), seconds);
        match step {
            Step::Reset => self.event = Some(Event::Reset),
            Step::Interval(d) => {
                self.interval = Some(Interval {
                    count: d.count(),
                    sum: Number::Float(d.sum()),
                    figures: Figures::of(&d),
                    distribution: d,
                });
            }
            Step::Same | Step::By(_) | Step::Other => {}
        }
        self
    }

    /// Say by how much it grew in so many seconds.
    pub fn grow(&mut self, delta: Option<Number>, seconds: f64) {
        self.delta = delta;
        let rate = |n: Number| Number::Float(n.as_f64() / seconds);
        self.rate = delta.filter(|_| seconds > 0.0).map(rate);
    }

    pub fn with_event(mut self, event: Event) -> Self {
        self.event = Some(event);
        self
    }

    /// The value, the change, and the rate as people read them.
    pub fn columns(&self) -> [String; 3] {
        let delta = match self.delta {
            Some(n) if n.as_f64() > 0.0 => Some(format!("+{}", digits(n))),
            n => n.map(digits),
        };
        let event = self.event.map(|e| e.word().to_string());
        let parts: Vec<_> = event.into_iter().chain(delta).collect();
        let change = parts.join(" ");
        let rate = self.rate.map_or_else(String::new, |n| short(n.as_f64()));
        [self.text.clone(), change, rate]
    }

    /// A line below: what a histogram got.
    pub fn below(&self, terminal: &Terminal) -> Option<Line> {
        let interval = self.interval.as_ref()?;
        let text = figures(&interval.distribution, &terminal.text(&self.unit))?;
        Some(Line::Text(format!("    {text}")))
    }
}
