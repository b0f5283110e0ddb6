// SPDX-License-Identifier: MIT
//! A push: pictures of all files, sent to the collector.

use std::collections::HashSet;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;

use super::answer::{Again, Taken, Trouble};
use super::endpoint::Endpoint;
#[cfg(feature = "grpc")]
use super::grpc::Grpc;
use super::http::{self, Http};
use super::message::Message;
use super::resource::Resources;
use super::{pairs, split};
use crate::args::Push;
use crate::expose::Collector;
use crate::failure::Failure;
use crate::serve::say;
use crate::told::Told;

/// The most bytes of a request before compression: a bit less than receivers of gRPC take.
const MOST: usize = 4_000_000;
/// So many different warnings of the collector are said.
const WARNINGS: usize = 64;

/// How a push ended.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// The collector has all points.
    Accepted,
    /// It does not want them, or some of them.
    Refused,
    /// They should be sent soon.
    Soon,
    /// They should not be sent before that time.
    After(Duration),
}

enum Sender {
    Http(Http),
    #[cfg(feature = "grpc")]
    Grpc(Grpc),
}

/// What pushes have in common.
pub struct Pusher {
    collector: Collector,
    resources: Resources,
    sender: Sender,
    /// For people.
    url: String,
    told: Told,
    warned: HashSet<String>,
}

impl Pusher {
    /// It is made within the runtime.
    pub fn new(args: &Push) -> Result<Self, Failure> {
        let endpoint = Endpoint::parse(&args.otlp)?;
        let mut given = pairs::of_environment("OTEL_EXPORTER_OTLP_HEADERS")?;
        given.extend_from_slice(&args.headers);
        let headers = http::headers(&given)?;
        Ok(Self {
            collector: Collector::new(&args.exposed)?,
            resources: Resources::new(&args.resource)?,
            url: endpoint.shown().to_string(),
            sender: Sender::new(&endpoint, headers, args.ca.as_deref())?,
            told: Told::default(),
            warned: HashSet::new(),
        })
    }

    /// Push what is counted now. Each answer may take so long.
    pub fn round(&mut self, answer: Duration) -> Outcome {
        let resources = &mut self.resources;
        let (messages, news) = self
            .collector
            .each(&mut |origin| Message::new(resources.of(origin), origin.taken));
        resources.end();
        news.iter().for_each(|sentence| say(sentence));
        let messages = messages.into_iter().map(Message::into_resource_metrics);
        let mut outcome = Outcome::Accepted;
        for request in split::split(messages.collect(), MOST) {
            match self.sender.send(&request, answer) {
                Ok(taken) if self.warn(&taken) => outcome = Outcome::Refused,
                Ok(_) => {}
                Err(trouble) => return self.trouble(&trouble),
            }
        }
        self.told.well(&format!("{} works again", self.url));
        outcome
    }

    fn trouble(&mut self, trouble: &Trouble) -> Outcome {
        let sentence = format!("{} {}", self.url, trouble.sentence);
        self.told.trouble(&trouble.kind, &sentence);
        match trouble.again {
            Again::Due => Outcome::Refused,
            Again::Soon => Outcome::Soon,
            Again::After(time) => Outcome::After(time),
        }
    }

    /// Say once what a collector says of points. Returns whether it refused some.
    fn warn(&mut self, taken: &Taken) -> bool {
        let Taken { rejected, message } = taken;
        let refused = *rejected > 0;
        let news = refused || !message.is_empty();
        if news && self.warned.len() < WARNINGS && self.warned.insert(message.clone()) {
            let refusal = match *rejected {
                1 => " refuses 1 point".to_string(),
                2.. => format!(" refuses {rejected} points"),
                _ => " takes all points, but warns".to_string(),
            };
            let reason = match message.as_str() {
                "" => String::new(),
                text => format!(": {text}"),
            };
            say(&format!("{}{refusal}{reason}", self.url));
        }
        refused
    }
}

impl Sender {
    fn new(
        endpoint: &Endpoint,
        headers: ureq::http::HeaderMap,
        ca: Option<&std::path::Path>,
    ) -> Result<Self, Failure> {
        if endpoint.is_grpc {
            #[cfg(feature = "grpc")]
            return Ok(Self::Grpc(Grpc::new(&endpoint.url, headers, ca)?));
            #[cfg(not(feature = "grpc"))]
            return Err(Failure::new(
                crate::failure::Exit::Usage,
                "this percpu was built without gRPC: give a URL with http or https, whose port \
                 is mostly 4318, or build percpu with the feature grpc",
            ));
        }
        Ok(Self::Http(Http::new(&endpoint.url, headers, ca)?))
    }

    fn send(
        &self,
        request: &ExportMetricsServiceRequest,
        answer: Duration,
    ) -> Result<Taken, Trouble> {
        match self {
            Self::Http(http) => http.send(request, answer),
            #[cfg(feature = "grpc")]
            Self::Grpc(grpc) => grpc.send(request, answer),
        }
    }
}
