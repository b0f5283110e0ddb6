// SPDX-License-Identifier: MIT
//! What systemd is told, if it has started this program.

use sd_notify::{notify, NotifyState};

/// Clients are served from now on.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// Answers are being finished.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Connections are looked after.
pub fn alive() {
    if sd_notify::watchdog_enabled().is_some() {
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(states: &[NotifyState]) {
    // Nobody waits for it, or it cannot be told.
    let _ = notify(states);
}
