// SPDX-License-Identifier: MIT
//! Files as HAProxy's description has them, and hostile ones.

use super::*;

/// A file with objects, each of a GUID, a group, a type, users, and counts by their offsets.
struct Made(PathBuf, Vec<u8>);

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Made {
    fn new(name: &str, minor: u8) -> Self {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let mut head = vec![0; 672];
        head[0] = 1;
        head[1] = minor;
        head[4..8].copy_from_slice(&1000u32.to_le_bytes());
        Self(path, head)
    }

    fn slot(mut self, i: usize, pid: u32, heartbeat: u32) -> Self {
        self.1[24 + 8 * i..][..4].copy_from_slice(&pid.to_le_bytes());
        self.1[28 + 8 * i..][..4].copy_from_slice(&heartbeat.to_le_bytes());
        self
    }

    fn object(mut self, guid: &[u8], group: u16, kind: u8, users: u64) -> Self {
        let mut object = vec![0; if self.1[1] == 2 { 552 } else { 560 }];
        object[..guid.len()].copy_from_slice(guid);
        object[128..130].copy_from_slice(&group.to_le_bytes());
        object[130] = kind;
        object[136..144].copy_from_slice(&users.to_le_bytes());
        // Each word says where it is.
        for at in (0..object.len() - 144 - 64).step_by(8) {
            object[144 + at..][..8].copy_from_slice(&(1000 + at as u64).to_le_bytes());
        }
        self.1.extend(object);
        for at in [536, 540] {
            let n = number(&self.1, at) + 1;
            self.1[at..at + 4].copy_from_slice(&n.to_le_bytes());
        }
        self
    }

    fn write(&self) -> Haproxy {
        std::fs::write(&self.0, &self.1).unwrap();
        Haproxy::open(&self.0).unwrap().unwrap()
    }

    fn refused(&self) -> bool {
        std::fs::write(&self.0, &self.1).unwrap();
        Haproxy::open(&self.0).is_none()
    }
}

fn value(picture: &Picture, text: &str) -> Option<f64> {
    let found = picture.series.iter().find(|s| s.about.to_string() == text);
    found.map(|s| s.value.as_ref().unwrap().number())
}

#[test]
fn a_file_of_very_many_guids_is_refused() {
    let with = |guids: usize| {
        let mut made = Made::new(&format!("haproxy-many-{guids}"), 3);
        for i in 0..guids {
            made = made.object(format!("g{i}").as_bytes(), 1, 1, 1);
        }
        made
    };
    let most = with(PROXIES);
    let picture = most.write().read(&|_| false).unwrap();
    assert_eq!(picture.series.len() % PROXIES, 0);
    let more = with(PROXIES + 1);
    let failure = more.write().read(&|_| false).unwrap_err();
    assert_eq!(failure.exit, Exit::BadFile);
    assert!(failure.sentence.contains("16384 proxies"), "{failure}");
}

#[test]
fn objects_of_one_guid_are_added_up() {
    let made = Made::new("haproxy-sum", 3)
        .object(b"web", 1, 0, 1)
        .object(b"web", 2, 0, 2)
        .object(b"web", 1, 1, 1);
    let mut file = made.write();
    let picture = file.read(&|_| false).unwrap();
    for (text, sum) in [
        ("haproxy_frontend_sessions_total{guid=\"web\"}", 2160.0),
        ("haproxy_frontend_connections_total{guid=\"web\"}", 2352.0),
        (
            "haproxy_frontend_http_cache_hint_hits_total{guid=\"web\"}",
            2560.0,
        ),
        (
            "haproxy_frontend_http_responses_total{guid=\"web\",code=\"5xx\"}",
            2672.0,
        ),
        (
            "haproxy_frontend_request_errors_total{guid=\"web\"}",
            2688.0,
        ),
        ("haproxy_backend_http_requests_total{guid=\"web\"}", 1200.0),
        (
            "haproxy_backend_connection_errors_total{guid=\"web\"}",
            1312.0,
        ),
    ] {
        assert_eq!(value(&picture, text), Some(sum), "{text}");
    }
    let again = file.read(&|_| false).unwrap();
    assert!(Arc::ptr_eq(
        &again.series[0].about,
        &picture.series[0].about
    ));
}

#[test]
fn the_version_before_lacks_a_word() {
    let made = Made::new("haproxy-old", 2)
        .object(b"web", 1, 0, 1)
        .object(b"b", 1, 1, 1);
    let picture = made.write().read(&|_| false).unwrap();
    let hits = "haproxy_frontend_http_cache_hint_hits_total{guid=\"web\"}";
    assert_eq!(value(&picture, hits), None);
    let errors = "haproxy_frontend_request_errors_total{guid=\"web\"}";
    assert_eq!(value(&picture, errors), Some(1336.0));
    let failed = "haproxy_backend_connection_errors_total{guid=\"b\"}";
    assert_eq!(value(&picture, failed), Some(1304.0));
}

#[test]
fn free_and_damaged_objects_are_left_out() {
    let made = Made::new("haproxy-hostile", 3)
        .object(b"free", 1, 0, 0)
        .object(b"reused", 0, 0, 1)
        .object(b"", 1, 0, 1)
        .object(&[b'x'; 128], 1, 0, 1)
        .object(b"\xff\xfe", 1, 0, 1)
        .object(b"kind", 1, 2, 1)
        .object(b"good", 1, 1, u64::MAX);
    let picture = made.write().read(&|_| false).unwrap();
    assert_eq!(picture.pending, 6);
    let good = |s: &Series| s.about.labels[0].1 == "good";
    assert!(!picture.series.is_empty() && picture.series.iter().all(good));
}

#[test]
fn processes_live_by_heartbeat_and_pid() {
    let own = std::process::id();
    let made = Made::new("haproxy-slots", 3)
        .slot(0, own, 2000)
        .slot(1, own, 1000) // over
        .slot(2, own, 0) // none
        .slot(3, 0x7fff_ffff, 2000) // no such process
        .slot(63, u32::MAX, 2000); // left
    let owners = made.write().read(&|_| false).unwrap().owners;
    let alive: Vec<_> = owners.iter().map(|o| o.alive).collect();
    assert_eq!(alive, [true, false, false, false]);
}

#[test]
fn a_file_that_is_cut_short_or_replaced_is_told() {
    let made = Made::new("haproxy-cut", 3)
        .object(b"web", 1, 0, 1)
        .object(b"x", 1, 0, 1);
    let mut file = made.write();
    std::fs::write(&made.0, &made.1[..672 + 560 + 5]).unwrap();
    let picture = file.read(&|_| false).unwrap();
    assert!(picture.series.iter().all(|s| s.about.labels[0].1 == "web"));
    std::fs::write(&made.0, &made.1[..100]).unwrap();
    assert_eq!(file.read(&|_| false).unwrap_err().exit, Exit::BadFile);
    std::fs::remove_file(&made.0).unwrap();
    assert_eq!(file.read(&|_| false).unwrap_err().exit, Exit::NotFound);
}

#[test]
fn other_files_are_refused() {
    let made = || Made::new("haproxy-other", 3).object(b"web", 1, 0, 1);
    let mut more_used = made();
    more_used.1[536] = 2;
    let mut more_slots = made();
    more_slots.1[540..544].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut short = made();
    short.1.truncate(671);
    let mut minor = made();
    minor.1[1] = 9;
    let newer = {
        std::fs::write(&minor.0, &minor.1).unwrap();
        Haproxy::open(&minor.0).unwrap().map(|_| ()).unwrap_err()
    };
    assert!(newer.sentence.contains("version 1.9"), "{newer}");
    let mut foreign = made();
    foreign.1[0] = 0x7f;
    assert!(more_used.refused() && more_slots.refused());
    assert!(short.refused() && foreign.refused());
}
