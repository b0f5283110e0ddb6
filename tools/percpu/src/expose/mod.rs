// SPDX-License-Identifier: MIT
//! Formats in which others take metrics.

pub mod text;
