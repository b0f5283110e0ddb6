// SPDX-License-Identifier: MIT
//! `/`: a page of all metrics, which needs nothing from elsewhere. Its files are in `page/`.

use axum::extract::Path;
use axum::http::{header, HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};

/// Nothing but what this server has; and no text becomes code.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// What all answers of the page say.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    // Kept, but asked for each time whether it is still the same.
    (header::CACHE_CONTROL, "no-cache"),
];

macro_rules! file {
    ($name:literal, $kind:literal) => {
        ($name, $kind, include_str!(concat!("page/", $name)))
    };
}

const INDEX: (&str, &str, &str) = file!("index.html", "text/html; charset=utf-8");

const FILES: [(&str, &str, &str); 9] = [
    file!("style.css", "text/css; charset=utf-8"),
    file!("icon.svg", "image/svg+xml"),
    file!("app.js", "text/javascript; charset=utf-8"),
    file!("charts.js", "text/javascript; charset=utf-8"),
    file!("detail.js", "text/javascript; charset=utf-8"),
    file!("feed.js", "text/javascript; charset=utf-8"),
    file!("numbers.js", "text/javascript; charset=utf-8"),
    file!("store.js", "text/javascript; charset=utf-8"),
    file!("table.js", "text/javascript; charset=utf-8"),
];

pub async fn index(headers: HeaderMap) -> Response {
    answer(INDEX, &headers)
}

pub async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match FILES.into_iter().find(|(n, ..)| *n == name) {
        Some(file) => answer(file, &headers),
        None => (StatusCode::NOT_FOUND, HEADERS, "there is no such file\n").into_response(),
    }
}

fn answer((_, kind, text): (&str, &'static str, &'static str), headers: &HeaderMap) -> Response {
    let tag = tag(text);
    let known = headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let own = [
        (header::CONTENT_TYPE, kind.to_string()),
        (header::ETAG, tag),
    ];
    if known {
        return (StatusCode::NOT_MODIFIED, HEADERS, own).into_response();
    }
    (HEADERS, own, text).into_response()
}

/// A text that another text most likely does not have: FNV-1a.
fn tag(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, b| {
        (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("\"{hash:016x}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The luminance of a color as WCAG defines it.
    fn luminance(color: &str) -> f64 {
        let part = |i: usize| f64::from(u8::from_str_radix(&color[i..i + 2], 16).unwrap()) / 255.0;
        let linear = |x: f64| match x {
            0.0..=0.04045 => x / 12.92,
            x => ((x + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * linear(part(1)) + 0.7152 * linear(part(3)) + 0.0722 * linear(part(5))
    }

    /// The light and the dark color of that name.
    fn colors(name: &str) -> [&'static str; 2] {
        let style = FILES[0].2;
        let rest = style
            .split(&format!("--{name}: light-dark("))
            .nth(1)
            .unwrap();
        let (light, rest) = rest.split_once(", ").unwrap();
        [light, rest.split(')').next().unwrap()]
    }

    #[test]
    fn all_texts_can_be_read_in_both_themes() {
        for text in ["text", "quiet", "accent", "good", "warn", "alarm"] {
            for ground in ["bg", "panel", "select"] {
                for (a, b) in colors(text).iter().zip(colors(ground)) {
                    let (a, b) = (luminance(a), luminance(b));
                    let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
                    assert!(contrast >= 4.5, "{text} on {ground}: {contrast:.2}");
                }
            }
        }
    }
}
