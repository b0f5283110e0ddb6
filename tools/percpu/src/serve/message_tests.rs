// SPDX-License-Identifier: MIT
//! What pages are sent: numbers, texts, and how much of it.

use std::sync::Arc;
use std::time::Instant;

use super::*;
use crate::model::{Change, Picture, Series};

/// A picture with counters of these numbers.
pub fn picture(ids: &[u64]) -> Picture {
    let series = |id: &u64| Series {
        about: Arc::new(About {
            id: *id,
            name: format!("{id}_total"),
            help: String::new(),
            unit: String::new(),
            kind: Kind::Counter,
            labels: Vec::new(),
            since: SystemTime::UNIX_EPOCH,
        }),
        value: Ok(Value::Count(*id)),
        family: None,
        details: None,
    };
    Picture {
        program: String::new(),
        generation: 0,
        since: SystemTime::UNIX_EPOCH,
        taken: SystemTime::UNIX_EPOCH,
        moment: Instant::now(),
        cpus: 1,
        pending: 0,
        owners: Vec::new(),
        series: ids.iter().map(series).collect(),
    }
}

/// The bound is that of all files together.
#[test]
fn what_there_is_no_room_for_is_told() {
    let most = SERIES as u64;
    let mut boards = Boards::default();
    for (name, ids) in [
        ("a", 0..most / 2),
        ("b", most..most + most / 2 + 7),
        ("c", 2 * most..2 * most + 9),
    ] {
        let ids: Vec<_> = ids.collect();
        boards.update(name, picture(&ids), Change::None);
    }
    let mut table = Table::default();
    table.update(&boards, 1.0, Vec::new());
    let whole = table.whole(&boards);
    let json: serde_json::Value = serde_json::from_slice(&whole[6..]).unwrap();
    assert_eq!(json["ids"].as_array().unwrap().len(), SERIES);
    let left_out = [0, 1, 2].map(|i| json["segments"][i]["left_out"].as_u64());
    assert_eq!(left_out, [Some(0), Some(7), Some(9)]);
}

#[test]
fn browsers_round_no_number() {
    let json = |n| serde_json::to_string(&Exact(n)).unwrap();
    for (n, text) in [
        (Number::Whole((1 << 53) - 1), "9007199254740991"),
        (Number::Whole(1 << 53), "\"9007199254740992\""),
        (Number::Whole(u64::MAX), "\"18446744073709551615\""),
        (Number::Signed(-5), "-5"),
        (Number::Signed(i64::MIN), "\"-9223372036854775808\""),
        (Number::Float(0.1), "0.1"),
        (Number::Float(f64::NAN), "\"NaN\""),
        (Number::Float(f64::NEG_INFINITY), "\"-Inf\""),
    ] {
        assert_eq!(json(n), text);
    }
    assert_eq!(
        Exact(Number::Float(f64::NAN)),
        Exact(Number::Float(f64::NAN))
    );
}

#[test]
fn texts_are_short_and_act_on_nothing() {
    assert_eq!(short("a\u{202e}b", TEXT), "a\\u{202e}b");
    assert_eq!(short("漢字漢字", 2), "漢字…");
    let long = "\u{202e}".repeat(1 << 20);
    let about = About {
        id: 1,
        name: long.clone(),
        help: String::new(),
        unit: String::new(),
        kind: Kind::Counter,
        labels: vec![(long.clone(), long.clone()); 20],
        since: SystemTime::UNIX_EPOCH,
    };
    let all: usize = labels(&about, TEXT)
        .iter()
        .map(|(n, v)| n.len() + v.len())
        .sum();
    // An escape has 8 letters.
    assert!(all < 10 * LABELS, "{all}");
    assert!(short(&about.name, TEXT).len() < 10 * TEXT);
}
