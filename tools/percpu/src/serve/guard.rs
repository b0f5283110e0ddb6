// SPDX-License-Identifier: MIT
//! Who may read.
//!
//! A page of another site that is open in a browser of this machine can send requests to 127.0.0.1,
//! but no answer says that it may read it. A site may also let its own name lead to 127.0.0.1: then
//! the browser takes the answer for one of the site, and the request has the site's name as its
//! host. So only hosts that nobody else can have are served. With a token or with TLS, such a site
//! gets nothing anyhow, and hosts are not looked at.

use std::net::IpAddr;

use axum::body::Body;
use axum::http::{header, request, HeaderValue, StatusCode, Version};
use axum::response::{IntoResponse, Response};

use super::token::Token;

pub struct Guard {
    /// Names that are served; `None`: all.
    hosts: Option<Vec<String>>,
    pub token: Option<Token>,
}

impl Guard {
    /// `hosts` are served beside addresses, localhost, and the name of this machine.
    pub fn new(hosts: &[String], token: Option<Token>, with_tls: bool) -> Self {
        let system = rustix::system::uname();
        let own = system.nodename().to_string_lossy().into_owned();
        let names = hosts.iter().cloned().chain(["localhost".to_string(), own]);
        Self {
            hosts: (token.is_none() && !with_tls).then(|| names.collect()),
            token,
        }
    }

    /// What a request is answered that is refused.
    pub fn refusal(&self, request: &request::Parts) -> Option<Response> {
        if let Some(names) = &self.hosts {
            match hosts(request) {
                None => return Some(refuse(StatusCode::BAD_REQUEST, "one Host must be given")),
                Some(hosts) if hosts.iter().all(|host| is_served(host, names)) => {}
                Some(_) => {
                    let text = "this name is not served: percpu serve --host NAME lets it be";
                    return Some(refuse(StatusCode::MISDIRECTED_REQUEST, text));
                }
            }
        }
        let shown = request.headers.get(header::AUTHORIZATION);
        if self
            .token
            .as_ref()
            .is_none_or(|token| token.is_shown(shown))
        {
            return None;
        }
        let mut response = refuse(StatusCode::UNAUTHORIZED, "a token must be shown");
        let basic = HeaderValue::from_static("Basic realm=\"percpu\", charset=\"UTF-8\"");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, basic);
        Some(response)
    }
}

fn refuse(status: StatusCode, text: &'static str) -> Response<Body> {
    (status, format!("{text}\n")).into_response()
}

/// The hosts that a request names, in its first line and in its head. `None`: not as HTTP demands.
/// Clients of HTTP/1.0, which are no browsers, need not name any.
fn hosts(request: &request::Parts) -> Option<Vec<&str>> {
    let mut values = request.headers.get_all(header::HOST).iter();
    let host = values.next();
    if values.next().is_some() || (host.is_none() && request.version == Version::HTTP_11) {
        return None;
    }
    let mut hosts: Vec<_> = request
        .uri
        .authority()
        .map(|a| a.as_str())
        .into_iter()
        .collect();
    if let Some(host) = host {
        hosts.push(host.to_str().ok()?);
    }
    Some(hosts)
}

fn is_served(host: &str, names: &[String]) -> bool {
    let name = without_port(host);
    let address = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
    if address.unwrap_or(name).parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    names.iter().any(|n| n.eq_ignore_ascii_case(name))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_served() {
        let names = ["localhost".to_string(), "web1".to_string()];
        for host in [
            "127.0.0.1:9180",
            "10.1.2.3",
            "[::1]:9180",
            "[::1]",
            "localhost",
            "LOCALHOST:9180",
            "localhost.:9180",
            "web1:1",
        ] {
            assert!(is_served(host, &names), "{host}");
        }
        for host in [
            "",
            ":9180",
            "evil.example:9180",
            "localhost.evil.example",
            "web1.evil.example",
            "127.0.0.1.evil.example",
            "evil.example@127.0.0.1",
            "127.0.0.1:9180:evil",
            "[evil.example]",
            "0x7f000001.evil",
        ] {
            assert!(!is_served(host, &names), "{host}");
        }
    }
}
