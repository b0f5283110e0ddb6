// SPDX-License-Identifier: MIT
//! The state and the screen, driven by pictures of real segments at chosen times.

mod anew;
mod files;
mod keys;
mod screens;
mod state;
mod terminal;
mod world;
