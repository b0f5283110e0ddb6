// SPDX-License-Identifier: MIT
//! Where metrics are pushed to.

use ureq::http::Uri;

use crate::failure::{Exit, Failure};

/// A collector.
#[derive(Debug, PartialEq)]
pub struct Endpoint {
    /// With `http` or `https`, and the path.
    pub url: String,
    pub is_grpc: bool,
}

impl Endpoint {
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = |why: &str| {
            Failure::new(
                Exit::Usage,
                format!("--otlp {text} {why}: give a URL such as http://127.0.0.1:4318"),
            )
        };
        let uri: Uri = text.parse().map_err(|_| wrong("is no URL"))?;
        let scheme = uri.scheme_str().unwrap_or_default();
        let (web, is_grpc) = match scheme {
            "http" | "https" => (scheme, false),
            "grpc" => ("http", true),
            "grpcs" => ("https", true),
            _ => return Err(wrong("has no http, https, grpc or grpcs")),
        };
        let authority = uri.authority().map(|a| a.as_str()).unwrap_or_default();
        let host = uri.host().unwrap_or_default();
        if host.is_empty() {
            return Err(wrong("has no host"));
        }
        if authority.contains('@') {
            return Err(wrong("has a user's name, which --header would give"));
        }
        // Without a port that can be, the request would go to the one of the scheme.
        if uri.port_u16().is_none() && authority != host {
            return Err(wrong("has no port from 1 to 65535 behind the colon"));
        }
        let path = uri.path_and_query().map(|p| p.as_str());
        let path = match path.unwrap_or_default() {
            "" | "/" if is_grpc => "",
            "" | "/" => "/v1/metrics",
            _ if is_grpc => return Err(wrong("has a path, which gRPC does not have")),
            path => path,
        };
        Ok(Self {
            url: format!("{web}://{authority}{path}"),
            is_grpc,
        })
    }

    /// For people: without a query, which may be secret.
    pub fn shown(&self) -> &str {
        self.url.split('?').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::Endpoint;

    #[test]
    fn a_url_without_a_path_gets_that_of_metrics() {
        for (text, url) in [
            ("http://a:4318", "http://a:4318/v1/metrics"),
            ("https://a/", "https://a/v1/metrics"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/metrics"),
            ("http://a/otlp", "http://a/otlp"),
            ("http://a/x/?key=1", "http://a/x/?key=1"),
        ] {
            assert_eq!(Endpoint::parse(text).unwrap().url, url);
        }
        let grpc = Endpoint::parse("grpcs://a:4317").unwrap();
        assert_eq!((grpc.url.as_str(), grpc.is_grpc), ("https://a:4317", true));
        for wrong in [
            "",
            "a",
            "a:4318",
            "ftp://a",
            "http://",
            "http://u:p@a",
            "http:///x",
            "grpc://a/b",
            "http://a b",
            "http://a:65536",
            "https://[::1]:99999/x",
            "grpc://a:",
        ] {
            assert!(Endpoint::parse(wrong).is_err(), "{wrong}");
        }
    }
}
