// SPDX-License-Identifier: MIT
//! Which clients are connected, what each is doing since when, and which of them must go.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::limits::{ANSWER_BYTES, HEAD_TIME, IDLE_TIME, LINGER_TIME, SEND_TIME, STALL_TIME};

/// What the task of a connection is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Serve,
    /// End when the answer is finished.
    Finish,
    /// End now.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The head of a request is awaited, or the first byte of a new connection.
    Head,
    /// The next request is awaited.
    Idle,
    /// An answer is being made, or sent.
    Answer,
    /// All is sent; the client is to close its side.
    Close,
}

struct State {
    phase: Phase,
    since: Instant,
    /// Since when the answer is being sent.
    sending: Option<Instant>,
    /// Since when the client takes nothing.
    stalled: Option<Instant>,
    /// Of the answer.
    bytes: u64,
    /// The answer goes on until somebody ends it: events.
    endless: bool,
    /// Nothing more will be sent but what is in the buffers.
    made: bool,
}

/// A client that is connected.
pub struct Client {
    state: Mutex<State>,
    order: watch::Sender<Order>,
}

impl State {
    fn enter(&mut self, phase: Phase) {
        *self = Self::new(phase);
    }

    fn new(phase: Phase) -> Self {
        Self {
            phase,
            since: Instant::now(),
            sending: None,
            stalled: None,
            bytes: 0,
            endless: false,
            made: false,
        }
    }

    /// Why it must go.
    fn overdue(&self, now: Instant) -> Option<&'static str> {
        let over = |since: Instant, limit: Duration| now.duration_since(since) > limit;
        match self.phase {
            Phase::Head if over(self.since, HEAD_TIME) => Some(""),
            Phase::Idle if over(self.since, IDLE_TIME) => Some(""),
            Phase::Close if over(self.since, LINGER_TIME) => Some(""),
            Phase::Answer if self.stalled.is_some_and(|s| over(s, STALL_TIME)) => {
                Some("took nothing of an answer for 10 s")
            }
            Phase::Answer if !self.endless && self.sending.is_some_and(|s| over(s, SEND_TIME)) => {
                Some("did not take an answer within 60 s")
            }
            _ => None,
        }
    }

    /// In which order clients go when there are too many: those that get an answer do not.
    fn rank(&self) -> Option<(u8, Instant)> {
        match self.phase {
            Phase::Idle | Phase::Close => Some((0, self.since)),
            Phase::Head => Some((1, self.since)),
            Phase::Answer => None,
        }
    }
}

impl Client {
    fn new() -> Self {
        Self {
            state: Mutex::new(State::new(Phase::Head)),
            order: watch::Sender::new(Order::Serve),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn orders(&self) -> watch::Receiver<Order> {
        self.order.subscribe()
    }

    /// Bytes have come.
    pub fn received(&self) {
        let mut state = self.state();
        if state.phase == Phase::Idle {
            state.enter(Phase::Head);
        }
    }

    /// The head of a request has come.
    pub fn asked(&self) {
        self.state().enter(Phase::Answer);
    }

    /// An answer begins, of so many bytes.
    pub fn answers(&self, bytes: u64, endless: bool) {
        let mut state = self.state();
        state.sending = Some(Instant::now());
        state.bytes = bytes;
        state.endless = endless;
    }

    /// All of the answer is in the buffers of the connection.
    pub fn made(&self) {
        let mut state = self.state();
        state.made = true;
        state.bytes = 0;
    }

    /// The client has no room for more bytes.
    pub fn blocked(&self) {
        self.state().stalled.get_or_insert_with(Instant::now);
    }

    /// The client has taken bytes.
    pub fn took(&self) {
        self.state().stalled = None;
    }

    /// The buffers of the connection are empty.
    pub fn flushed(&self) {
        let mut state = self.state();
        if state.phase == Phase::Answer && state.made {
            state.enter(Phase::Idle);
        }
    }

    /// There will be no more requests.
    pub fn closes(&self) {
        self.state().enter(Phase::Close);
    }

    /// Whether an answer is cut off if the connection ends now.
    pub fn is_answered(&self) -> bool {
        self.state().phase == Phase::Answer
    }

    fn end(&self) {
        self.order.send_replace(Order::End);
    }
}

/// All clients.
pub struct Clients {
    all: Mutex<Vec<Arc<Client>>>,
    places: usize,
}

impl Clients {
    pub fn new(places: usize) -> Self {
        Self {
            all: Mutex::new(Vec::new()),
            places,
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Client>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Give a new client a place. If all are taken, the one that has been idle for the longest time
    /// loses its own; `None` if all get answers.
    pub fn enter(&self) -> Option<Arc<Client>> {
        while self.all().len() >= self.places {
            if !self.end_idle() {
                return None;
            }
        }
        let client = Arc::new(Client::new());
        self.all().push(client.clone());
        Some(client)
    }

    /// End the connection that has been idle for the longest time. Return whether there is one.
    pub fn end_idle(&self) -> bool {
        let mut all = self.all();
        let ranked = all.iter().enumerate();
        let first = ranked
            .filter_map(|(i, client)| Some((client.state().rank()?, i)))
            .min();
        if let Some((_, i)) = first {
            all.swap_remove(i).end();
        }
        first.is_some()
    }

    pub fn leave(&self, client: &Arc<Client>) {
        self.all().retain(|c| !Arc::ptr_eq(c, client));
    }

    pub fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// End the connections whose time is over. Return why answers are cut off.
    pub fn sweep(&self, now: Instant) -> Vec<&'static str> {
        let mut cut = Vec::new();
        for client in self.all().iter() {
            if let Some(why) = client.state().overdue(now) {
                client.end();
                cut.push(why);
            }
        }
        cut.retain(|why| !why.is_empty());
        cut
    }

    /// Cut off the oldest answers until those that are being sent fit into memory. The client's own
    /// is the newest. Return whether there was one.
    pub fn bound_answers(&self, own: &Arc<Client>) -> bool {
        let all = self.all();
        let mut sent: Vec<_> = all
            .iter()
            .filter_map(|c| {
                let state = c.state();
                Some((state.sending?, state.bytes, c)).filter(|_| state.bytes != 0)
            })
            .collect();
        sent.sort_by_key(|(since, ..)| *since);
        let mut bytes: u64 = sent.iter().map(|(_, bytes, _)| bytes).sum();
        let mut cut = false;
        for (_, its, client) in sent {
            if bytes > ANSWER_BYTES && !Arc::ptr_eq(client, own) {
                bytes -= its;
                client.end();
                cut = true;
            }
        }
        cut
    }

    /// Let answers be finished, and end all other connections.
    pub fn stop(&self) {
        for client in self.all().iter() {
            let state = client.state();
            let finish =
                state.phase == Phase::Close || (state.phase == Phase::Answer && !state.endless);
            client
                .order
                .send_replace(if finish { Order::Finish } else { Order::End });
        }
    }
}

#[cfg(test)]
#[path = "clients_tests.rs"]
mod tests;
