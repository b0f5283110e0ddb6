// SPDX-License-Identifier: MIT
//! OTLP over gRPC.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message;
use tokio::runtime::Handle;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request};
use ureq::http::HeaderMap;

use super::answer::{short, Again, Taken, Trouble};
use super::http::{is_compressed, pem, MOST};
use crate::failure::{Exit, Failure};

/// A collector that speaks gRPC.
pub struct Grpc {
    client: MetricsServiceClient<Channel>,
    headers: MetadataMap,
    runtime: Handle,
}

/// The details of a status, as in `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct Details {
    #[prost(message, repeated, tag = "3")]
    all: Vec<Detail>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Detail {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(bytes = "vec", tag = "2")]
    bytes: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, prost::Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    delay: Option<Delay>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanoseconds: i32,
}

impl Grpc {
    /// It is made within the runtime.
    pub fn new(url: &str, headers: HeaderMap, ca: Option<&Path>) -> Result<Self, Failure> {
        let wrong = |e: &dyn Error| Failure::new(Exit::Usage, format!("{url} {}", reasons(e)));
        let mut endpoint = Endpoint::from_shared(url.to_string()).map_err(|e| wrong(&e))?;
        if url.starts_with("https:") {
            let tls = ClientTlsConfig::new();
            let tls = match ca {
                None => tls.with_webpki_roots(),
                Some(path) => tls.ca_certificate(Certificate::from_pem(pem(path)?)),
            };
            endpoint = endpoint.tls_config(tls).map_err(|e| wrong(&e))?;
        }
        let mut client = MetricsServiceClient::new(endpoint.connect_lazy())
            .accept_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(MOST as usize);
        if is_compressed()? {
            client = client.send_compressed(CompressionEncoding::Gzip);
        }
        Ok(Self {
            client,
            headers: MetadataMap::from_headers(headers),
            runtime: Handle::current(),
        })
    }

    /// Send a request, and wait for the answer for so long.
    pub fn send(
        &self,
        request: &ExportMetricsServiceRequest,
        time: Duration,
    ) -> Result<Taken, Trouble> {
        let mut request = Request::new(request.clone());
        *request.metadata_mut() = self.headers.clone();
        let mut client = self.client.clone();
        let answer = async { tokio::time::timeout(time, client.export(request)).await };
        match self.runtime.block_on(answer) {
            Ok(Ok(answer)) => {
                let part = answer.into_inner().partial_success.unwrap_or_default();
                Ok(Taken {
                    rejected: part.rejected_data_points,
                    message: short(&part.error_message),
                })
            }
            Ok(Err(status)) => Err(trouble(&status)),
            Err(_) => Err(Trouble::new(
                "time",
                format!("gave no answer in {} s", time.as_secs_f64().ceil()),
                Again::Soon,
            )),
        }
    }
}

fn trouble(status: &tonic::Status) -> Trouble {
    let again = match (status.code(), delay(status.details())) {
        (_, Some(time)) => Again::After(time),
        (
            Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss,
            None,
        ) => Again::Soon,
        _ => Again::Due,
    };
    let reason = match status.source() {
        Some(e) => reasons(e),
        None => status.message().to_string(),
    };
    let sentence = format!("answers {:?}: {}", status.code(), short(&reason));
    Trouble::new(format!("{:?}", status.code()), sentence, again)
}

/// The time after which a collector wants to be asked again.
fn delay(details: &[u8]) -> Option<Duration> {
    let details = Details::decode(details).ok()?;
    let info = details.all.iter().find(|d| d.kind.ends_with("RetryInfo"))?;
    let delay = RetryInfo::decode(&info.bytes[..]).ok()?.delay?;
    let nanoseconds = u32::try_from(delay.nanoseconds).ok()?;
    Some(Duration::new(
        u64::try_from(delay.seconds).ok()?,
        nanoseconds.min(999_999_999),
    ))
}

/// An error, and what is behind it.
fn reasons(e: &dyn Error) -> String {
    let mut text = e.to_string();
    let mut next = e.source();
    while let Some(e) = next {
        let more = e.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = e.source();
    }
    text
}
