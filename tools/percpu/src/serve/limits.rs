// SPDX-License-Identifier: MIT
//! What clients may take of this program, so that none of them keeps others from being served.
//! docs/tool/serve.md has a table of them.

use std::time::Duration;

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

/// Connections at once.
pub const CONNECTIONS: usize = 256;

/// Bytes of the head of a request, and its lines.
pub const HEAD_BYTES: usize = 32 << 10;
pub const HEAD_LINES: usize = 100;

/// For the head of a request. It begins when the connection does, so a TLS handshake is in it, or
/// with the first byte of a later request.
pub const HEAD_TIME: Duration = Duration::from_secs(10);

/// Between an answer and the next request.
pub const IDLE_TIME: Duration = Duration::from_secs(300);

/// While a client takes nothing of an answer.
pub const STALL_TIME: Duration = Duration::from_secs(10);

/// For sending an answer, however it goes on.
pub const SEND_TIME: Duration = Duration::from_secs(60);

/// What the kernel takes of an answer before the client does; it takes twice as much. With buffers
/// of several MiB, a client that is slow would seem to take nothing for a long time.
pub const SEND_BUFFER: usize = 128 << 10;

/// All answers that are being sent, in bytes; one answer may be larger.
pub const ANSWER_BYTES: u64 = 256 << 20;

/// For the turn of a scrape.
pub const TURN_TIME: Duration = Duration::from_secs(10);

/// For a client to close its side, after the last answer.
pub const LINGER_TIME: Duration = Duration::from_secs(1);

/// For answers that are not finished when the program is to end.
pub const STOP_TIME: Duration = Duration::from_secs(5);

/// Raise the limit of descriptors to what this process may have, since a scrape opens all segments
/// at once. Return how many connections are served at once: they must leave descriptors to others.
pub fn connections() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    places(limit)
}

/// Descriptors that this program has without clients and segments.
const OWN: u64 = 12;

/// A quarter of the other descriptors.
fn places(descriptors: Option<u64>) -> usize {
    let quarter = descriptors.unwrap_or(u64::MAX).saturating_sub(OWN) / 4;
    usize::try_from(quarter).map_or(CONNECTIONS, |n| n.clamp(1, CONNECTIONS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_segments() {
        assert_eq!(places(None), CONNECTIONS);
        assert_eq!(places(Some(1 << 20)), CONNECTIONS);
        assert_eq!(places(Some(256)), 61);
        assert_eq!(places(Some(16)), 1);
        assert_eq!(places(Some(0)), 1);
    }
}
