// SPDX-License-Identifier: MIT
//! OTLP over HTTP, with protobuf.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use prost::Message;
use ureq::http::{header, HeaderMap, HeaderName, HeaderValue, Response};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::answer::{retry_after, short, Again, Taken, Trouble};
use crate::failure::{Exit, Failure};

/// The most of an answer that is read.
pub const MOST: u64 = 64 << 10;

/// The headers of a request that this program makes.
const OWN: [header::HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::HOST,
];

/// A collector that speaks HTTP.
pub struct Http {
    agent: Agent,
    url: String,
    headers: HeaderMap,
    is_compressed: bool,
}

/// What a refusal has in its body, by the protocol.
#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
}

impl Http {
    pub fn new(url: &str, headers: HeaderMap, ca: Option<&Path>) -> Result<Self, Failure> {
        let roots = match ca {
            Some(path) => RootCerts::new_with_certs(&certificates(path)?),
            None => RootCerts::WebPki,
        };
        let agent = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .http_status_as_error(false)
            // The headers of the command line are for that collector alone.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("percpu/", env!("CARGO_PKG_VERSION")))
            .accept("application/x-protobuf")
            // By the next push, a collector may have closed it.
            .max_idle_connections(0)
            .build();
        Ok(Self {
            agent: agent.into(),
            url: url.to_string(),
            headers,
            is_compressed: is_compressed()?,
        })
    }

    /// Send a request, and wait for the answer for so long.
    pub fn send(
        &self,
        request: &ExportMetricsServiceRequest,
        time: Duration,
    ) -> Result<Taken, Trouble> {
        let mut body = request.encode_to_vec();
        let mut post = self.agent.post(&self.url);
        for (name, value) in &self.headers {
            post = post.header(name, value);
        }
        if self.is_compressed {
            body = gzip(&body)
                .map_err(|e| Trouble::new("gzip", format!("cannot be sent to: {e}"), Again::Due))?;
            post = post.header(header::CONTENT_ENCODING, "gzip");
        }
        let answer = post
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .config()
            .timeout_global(Some(time))
            .build()
            .send(&body[..]);
        judge(answer.map_err(|e| no_answer(&e, time))?, time)
    }
}

/// The headers of the command line.
pub fn headers(given: &[(String, String)]) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let wrong = |why: &str| Failure::new(Exit::Usage, format!("the header {name:?} {why}"));
        let key: HeaderName = name.parse().map_err(|_| wrong("has a wrong name"))?;
        if OWN.contains(&key) {
            return Err(wrong("is made by percpu, and cannot be given"));
        }
        let mut value: HeaderValue = value
            .parse()
            .map_err(|_| wrong("has a value that a header cannot have"))?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// What is in a file of certificates.
pub fn pem(path: &Path) -> Result<Vec<u8>, Failure> {
    let file = crate::serve::read(path);
    let (bytes, _) = file.map_err(|f| Failure::new(Exit::Usage, format!("--ca {}", f.sentence)))?;
    Ok(bytes)
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, Failure> {
    let shown = path.display();
    let bad = |why: String| Failure::new(Exit::Usage, format!("--ca {shown} {why}"));
    let mut all = Vec::new();
    for item in ureq::tls::parse_pem(&pem(path)?) {
        match item {
            Ok(PemItem::Certificate(c)) => all.push(c),
            Ok(_) => {}
            Err(e) => return Err(bad(format!("is damaged: {e}"))),
        }
    }
    if all.is_empty() {
        return Err(bad("has no certificate in PEM".to_string()));
    }
    Ok(all)
}

/// Whether requests are compressed: some receivers cannot read those.
pub fn is_compressed() -> Result<bool, Failure> {
    const VARIABLE: &str = "OTEL_EXPORTER_OTLP_COMPRESSION";
    match std::env::var(VARIABLE).unwrap_or_default().as_str() {
        "" | "gzip" => Ok(true),
        "none" => Ok(false),
        _ => Err(Failure::new(
            Exit::Usage,
            format!("{VARIABLE} is wrong: give gzip or none"),
        )),
    }
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// What an answer means.
fn judge(mut answer: Response<Body>, time: Duration) -> Result<Taken, Trouble> {
    let status = answer.status();
    let header = |name| {
        let value: Option<&HeaderValue> = answer.headers().get(name);
        value.and_then(|v| v.to_str().ok()).unwrap_or_default()
    };
    let (kind, place) = (
        header(header::CONTENT_TYPE).to_string(),
        short(header(header::LOCATION)),
    );
    let wait = retry_after(header(header::RETRY_AFTER), SystemTime::now());
    let body = answer
        .body_mut()
        .with_config()
        .limit(MOST)
        .read_to_vec()
        .map_err(|e| no_answer(&e, time));
    if status.is_success() {
        return taken(&body?);
    }
    // What is wrong is known without it.
    let said = words(&body.unwrap_or_default(), &kind);
    let (sentence, again) = match status.as_u16() {
        300..=399 if !place.is_empty() => (
            format!("answers {status}, to {place}: give that URL, if it is the right one"),
            Again::Due,
        ),
        429 | 502..=504 => (
            format!("answers {status}{said}"),
            wait.map_or(Again::Soon, Again::After),
        ),
        400 | 415 => (
            format!(
                "answers {status}{said}; some receivers do not read gzip: \
                 OTEL_EXPORTER_OTLP_COMPRESSION=none"
            ),
            Again::Due,
        ),
        401 | 403 => (
            format!("answers {status}{said}: --header gives a token"),
            Again::Due,
        ),
        404 | 405 => (
            format!("answers {status}{said}: is it the right URL?"),
            Again::Due,
        ),
        _ => (format!("answers {status}{said}"), Again::Due),
    };
    Err(Trouble::new(status.as_str(), sentence, again))
}

/// What a collector says that took metrics.
fn taken(body: &[u8]) -> Result<Taken, Trouble> {
    let answer = ExportMetricsServiceResponse::decode(body).map_err(|_| {
        Trouble::new(
            "no OTLP",
            "answers 200, but not as OTLP says: is it the right URL?",
            Again::Due,
        )
    })?;
    let part = answer.partial_success.unwrap_or_default();
    Ok(Taken {
        rejected: part.rejected_data_points,
        message: short(&part.error_message),
    })
}

/// The reason in a refusal, to follow its number.
fn words(body: &[u8], kind: &str) -> String {
    let text = if kind.starts_with("application/x-protobuf") {
        Status::decode(body).unwrap_or_default().message
    } else {
        String::from_utf8_lossy(body).into_owned()
    };
    match short(&text) {
        text if text.is_empty() => text,
        text => format!(": {text}"),
    }
}

/// Why there is no answer.
fn no_answer(e: &ureq::Error, time: Duration) -> Trouble {
    use ureq::Error as E;
    let (kind, sentence, again) = match e {
        E::Timeout(_) => (
            "time",
            format!("gave no answer in {} s", time.as_secs_f64().ceil()),
            Again::Soon,
        ),
        E::HostNotFound => (
            "host",
            "is at a host that is not known".to_string(),
            Again::Soon,
        ),
        E::BodyExceedsLimit(_) => (
            "length",
            format!("gave an answer of more than {} KiB", MOST >> 10),
            Again::Due,
        ),
        E::LargeResponseHeader(..) => (
            "head",
            "gave an answer with too large a head".to_string(),
            Again::Due,
        ),
        E::Io(e) if is_tls(e) => ("tls", tls(e), Again::Due),
        E::Rustls(_) | E::Tls(_) => ("tls", tls(e), Again::Due),
        E::Io(e) if e.kind() == io::ErrorKind::ConnectionRefused => (
            "refused",
            "cannot be reached: nobody listens there".to_string(),
            Again::Soon,
        ),
        E::Io(e) if is_closed(e) => (
            "closed",
            "closed the connection without an answer".to_string(),
            Again::Soon,
        ),
        E::Io(e) => ("io", format!("cannot be reached: {e}"), Again::Soon),
        E::Protocol(e) => ("http", format!("does not speak HTTP: {e}"), Again::Due),
        e => ("other", format!("cannot be sent to: {e}"), Again::Soon),
    };
    Trouble::new(kind, short(&sentence), again)
}

fn is_tls(e: &io::Error) -> bool {
    e.get_ref().is_some_and(|e| e.is::<rustls::Error>())
}

fn is_closed(e: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(
        e.kind(),
        K::UnexpectedEof | K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe
    )
}

fn tls(e: &impl std::fmt::Display) -> String {
    format!("cannot be trusted, or has no TLS: {e}; --ca FILE gives other certificates")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_again_soon() {
        let again = |status: u16, headers: &[(&str, &str)]| {
            let mut answer = Response::builder().status(status);
            for (name, value) in headers {
                answer = answer.header(*name, *value);
            }
            let answer = answer.body(Body::builder().data("no")).unwrap();
            judge(answer, Duration::from_secs(1)).unwrap_err().again
        };
        for status in [429, 502, 503, 504] {
            assert_eq!(again(status, &[]), Again::Soon, "{status}");
            let wait = again(status, &[("Retry-After", "7")]);
            assert_eq!(wait, Again::After(Duration::from_secs(7)), "{status}");
        }
        for status in [301, 400, 401, 404, 408, 413, 500, 501, 505] {
            let again = again(status, &[("Retry-After", "7")]);
            assert_eq!(again, Again::Due, "{status}");
        }
    }
}
