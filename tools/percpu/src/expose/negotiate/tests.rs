// SPDX-License-Identifier: MIT
//! What clients ask for, and what they get.

use super::*;

const PROTOBUF: &str = "application/vnd.google.protobuf;\
                        proto=io.prometheus.client.MetricFamily;encoding=delimited";
const OM1: &str = "application/openmetrics-text;version=1.0.0";
const OM0: &str = "application/openmetrics-text;version=0.0.1";

fn asked(accept: &str) -> Form {
    form([accept].into_iter())
}

#[test]
fn prometheus_gets_what_it_likes_best() {
    let old = format!("{OM1},{OM0};q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1");
    assert_eq!(asked(&old), Form::OpenMetrics(Escaping::Underscores));
    let native =
        format!("{PROTOBUF},{OM1};q=0.8,{OM0};q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1");
    assert_eq!(asked(&native), Form::Protobuf(Escaping::Underscores));
    let three = format!(
        "{OM1};escaping=allow-utf-8;q=0.6,{OM0};q=0.5,\
         text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,\
         */*;q=0.2"
    );
    assert_eq!(asked(&three), Form::OpenMetrics(Escaping::Utf8));
    let native = format!("{PROTOBUF};q=0.6,{OM1};escaping=allow-utf-8;q=0.5,*/*;q=0.2");
    assert_eq!(asked(&native), Form::Protobuf(Escaping::Underscores));
}

const FORMS: &[(&str, Form)] = &[
    ("", Form::Text),
    (",;q=1,;;=,", Form::Text),
    ("*/*", Form::Text),
    ("text/*", Form::Text),
    ("text/plain", Form::Text),
    ("TEXT/Plain ; Version=\"0.0.4\"", Form::Text),
    ("text/html,application/xml;q=0.9,*/*;q=0.8", Form::Text),
    ("text/plain;version=9.9.9", Form::Text),
    (
        "text/plain;version=1.0.0",
        Form::Text1(Escaping::Underscores),
    ),
    (
        "text/plain;version=1.0.0;escaping=dots",
        Form::Text1(Escaping::Dots),
    ),
    (
        "text/plain;version=1.0.0;escaping=odd",
        Form::Text1(Escaping::Underscores),
    ),
    // Names of version 0.0.4 have no quotes, whatever is asked for.
    ("text/plain;version=0.0.4;escaping=allow-utf-8", Form::Text),
    ("application/*", Form::OpenMetrics(Escaping::Underscores)),
    ("application/openmetrics-text", Form::OpenMetrics0),
    (OM0, Form::OpenMetrics0),
    (
        "application/openmetrics-text;version=2.0.0, */*;q=0.1",
        Form::Text,
    ),
    (
        "application/openmetrics-text;version=1.0.0;x=y;q=0.5;z",
        Form::OpenMetrics(Escaping::Underscores),
    ),
    (
        "text/plain;q=0.5,application/openmetrics-text;q=0.6",
        Form::OpenMetrics0,
    ),
    ("text/plain,application/openmetrics-text;q=0.6", Form::Text),
    ("*/*,application/openmetrics-text", Form::OpenMetrics0),
    ("application/openmetrics-text;q=0,*/*;q=0.1", Form::Text),
    ("application/openmetrics-text;q=2", Form::Text),
    ("application/openmetrics-text;q=NaN", Form::Text),
    (
        "application/openmetrics-text;x=\"a,b;q=0\";q=0.5,text/plain;q=0.1",
        Form::OpenMetrics0,
    ),
    ("application/vnd.google.protobuf", Form::Text),
    (
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
        Form::Text,
    ),
];

#[test]
fn others_get_what_they_ask_for() {
    for (accept, form) in FORMS {
        assert_eq!(asked(accept), *form, "{accept}");
    }
    let several = ["text/plain;q=0.1", OM1];
    assert_eq!(
        form(several.into_iter()),
        Form::OpenMetrics(Escaping::Underscores)
    );
    assert_eq!(form([].into_iter()), Form::Text);
}

#[test]
fn gzip_is_for_those_who_like_it() {
    for (accept, yes) in [
        ("", false),
        ("gzip", true),
        ("GZIP;q=0.1", true),
        ("identity", false),
        ("gzip, identity", true),
        ("gzip;q=0.5, identity", false),
        ("gzip;q=0", false),
        ("gzip;q=0, *", false),
        ("*", true),
        ("*;q=0", false),
        ("deflate, br", false),
        ("gzip;q=x", false),
    ] {
        assert_eq!(gzip([accept].into_iter()), yes, "{accept}");
    }
    assert!(gzip(["deflate", "gzip"].into_iter()));
}

/// Whatever a client sends, it gets an answer.
#[test]
fn headers_without_sense() {
    let pieces = [
        "text/plain",
        "*/*",
        ",",
        ";",
        "q=",
        "=",
        "\"",
        "\\",
        "0.5",
        "-1",
        "é",
        " ",
        "version=",
        "1.0.0",
        "application/openmetrics-text",
        "gzip",
        "escaping=values",
        "*",
    ];
    let mut state = 1u64;
    let mut next = |n: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % n
    };
    for _ in 0..20_000 {
        let header: String = (0..next(12)).map(|_| pieces[next(pieces.len())]).collect();
        let form = asked(&header);
        assert!(form.content_type().starts_with(['t', 'a']), "{header}");
        gzip([header.as_str()].into_iter());
    }
    let long = "a/b;c=\"d,".repeat(100_000);
    assert_eq!(asked(&long), Form::Text);
}
