// SPDX-License-Identifier: MIT
//! The verbs that print lines.

mod ask;
pub mod completions;
pub mod diff;
pub mod doctor;
pub mod gc;
pub mod ls;
pub mod man;
pub mod reset;
pub mod show;
pub mod watch;
