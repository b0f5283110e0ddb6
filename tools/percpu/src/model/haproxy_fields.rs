// SPDX-License-Identifier: MIT
//! Where an object of a shm-stats-file has which counter. Names are those of HAProxy's exporter
//! for Prometheus, where that has one.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Frontends and listeners.
    Front,
    /// Backends and servers.
    Back,
}

impl Side {
    pub fn word(self) -> &'static str {
        match self {
            Self::Front => "frontend",
            Self::Back => "backend",
        }
    }

    /// The one word of version 1.3 that 1.2 lacks.
    fn added(self) -> usize {
        match self {
            Self::Front => 280,
            Self::Back => 224,
        }
    }

    /// The counters of an object.
    pub fn fields(self) -> impl Iterator<Item = &'static Field> {
        let own = match self {
            Self::Front => FRONT,
            Self::Back => BACK,
        };
        BOTH.iter().chain(own)
    }
}

/// A counter of 8 bytes.
pub struct Field {
    /// Behind the beginning of the counters, in version 1.3.
    at: usize,
    /// Behind `haproxy_frontend_` or `haproxy_backend_`.
    pub name: &'static str,
    pub help: &'static str,
    pub label: Option<(&'static str, &'static str)>,
}

impl Field {
    /// Where it is in an object of that side. `None` in a version that lacks it.
    pub fn at(&self, side: Side, minor: u8) -> Option<usize> {
        match minor {
            2 if self.at == side.added() => None,
            2 if self.at > side.added() => Some(self.at - 8),
            _ => Some(self.at),
        }
    }

    pub fn unit(&self) -> &'static str {
        if self.name.contains("_bytes_") {
            "bytes"
        } else {
            ""
        }
    }
}

const fn field(at: usize, name: &'static str, help: &'static str) -> Field {
    Field {
        at,
        name,
        help,
        label: None,
    }
}

const fn of(label: &'static str, value: &'static str, field: Field) -> Field {
    Field {
        label: Some((label, value)),
        ..field
    }
}

const fn compressor(at: usize, direction: &'static str, name: &'static str) -> Field {
    of(
        "direction",
        direction,
        field(
            at,
            name,
            "Bytes that were to be compressed, by what became of them.",
        ),
    )
}

const fn requests(at: usize, version: &'static str) -> Field {
    of(
        "version",
        version,
        field(at, "http_requests_total", "HTTP requests by version."),
    )
}

const fn sessions(at: usize, version: &'static str) -> Field {
    of(
        "version",
        version,
        field(at, "http_sessions_total", "HTTP sessions by version."),
    )
}

const fn responses(at: usize, code: &'static str) -> Field {
    of(
        "code",
        code,
        field(at, "http_responses_total", "HTTP responses by status."),
    )
}

const BOTH: &[Field] = &[
    field(
        0,
        "server_aborts_total",
        "Transfers that the server aborted.",
    ),
    field(
        8,
        "client_aborts_total",
        "Transfers that the client aborted.",
    ),
    field(16, "internal_errors_total", "Internal errors."),
    field(
        24,
        "failed_header_rewriting_total",
        "Headers that could not be rewritten.",
    ),
    field(32, "request_bytes_in_total", "Bytes that clients sent."),
    field(
        40,
        "request_bytes_out_total",
        "Bytes that were sent to servers.",
    ),
    field(48, "response_bytes_in_total", "Bytes that servers sent."),
    field(
        56,
        "response_bytes_out_total",
        "Bytes that were sent to clients.",
    ),
    field(64, "responses_denied_total", "Responses that were denied."),
    field(72, "requests_denied_total", "Requests that were denied."),
    field(80, "sessions_total", "Sessions."),
    compressor(88, "request", "http_comp_bytes_in_total"),
    compressor(96, "response", "http_comp_bytes_in_total"),
    compressor(104, "request", "http_comp_bytes_out_total"),
    compressor(112, "response", "http_comp_bytes_out_total"),
    compressor(120, "request", "http_comp_bytes_bypassed_total"),
    compressor(128, "response", "http_comp_bytes_bypassed_total"),
];

const FRONT: &[Field] = &[
    field(152, "denied_sessions_total", "Sessions that rules denied."),
    field(
        160,
        "denied_connections_total",
        "Connections that rules denied.",
    ),
    field(
        168,
        "intercepted_requests_total",
        "Requests for statistics or monitoring.",
    ),
    field(176, "connections_total", "Connections."),
    sessions(208, "1"),
    sessions(216, "2"),
    sessions(224, "3"),
    requests(232, "other"),
    requests(240, "1"),
    requests(248, "2"),
    requests(256, "3"),
    field(264, "http_cache_hits_total", "Answers from the cache."),
    field(272, "http_cache_lookups_total", "Look-ups in the cache."),
    field(
        280,
        "http_cache_hint_hits_total",
        "Answers from the cache that sent early hints.",
    ),
    field(
        288,
        "http_comp_responses_total",
        "Responses that were compressed.",
    ),
    responses(296, "other"),
    responses(304, "1xx"),
    responses(312, "2xx"),
    responses(320, "3xx"),
    responses(328, "4xx"),
    responses(336, "5xx"),
    field(
        344,
        "request_errors_total",
        "Requests that were invalid or came too late.",
    ),
];

const BACK: &[Field] = &[
    field(
        152,
        "loadbalanced_total",
        "Sessions that load balancing assigned.",
    ),
    field(160, "connection_attempts_total", "Attempts to connect."),
    field(
        168,
        "connection_reuses_total",
        "Connections that were used again.",
    ),
    field(176, "check_failures_total", "Health checks that failed."),
    field(
        184,
        "health_analysis_failures_total",
        "Answers that health analysis found wrong.",
    ),
    field(
        192,
        "check_up_down_total",
        "Changes of servers from up to down.",
    ),
    field(200, "http_requests_total", "HTTP requests."),
    field(208, "http_cache_hits_total", "Answers from the cache."),
    field(216, "http_cache_lookups_total", "Look-ups in the cache."),
    field(
        224,
        "http_cache_hint_hits_total",
        "Answers from the cache that sent early hints.",
    ),
    field(
        232,
        "http_comp_responses_total",
        "Responses that were compressed.",
    ),
    responses(240, "other"),
    responses(248, "1xx"),
    responses(256, "2xx"),
    responses(264, "3xx"),
    responses(272, "4xx"),
    responses(280, "5xx"),
    field(
        288,
        "redispatch_warnings_total",
        "Connections that were sent to another server.",
    ),
    field(
        296,
        "retry_warnings_total",
        "Connections that were tried again.",
    ),
    field(304, "response_errors_total", "Responses that were invalid."),
    field(312, "connection_errors_total", "Connections that failed."),
];
