// SPDX-License-Identifier: MIT
//! Pictures for pages: one thread takes them for all pages, while there are any.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::body::Bytes;
use tokio::sync::watch;

use super::message::Table;
use super::say;
use crate::args::Exposed;
use crate::failure::Failure;
use crate::model::boards::Boards;
use crate::model::files::Files;
use crate::model::snapshot::seconds;
use crate::verbs::select::Select;

const PERIOD: Duration = Duration::from_secs(1);
/// How long pictures are taken after the last page has gone: it may be loaded again.
const LINGER: Duration = Duration::from_secs(10);
/// How many pages may be connected.
pub const PAGES: usize = 32;
/// How many series may have details, and for how long after a page asked.
const DETAILED: usize = 32;
const ASKED: Duration = Duration::from_secs(5);

/// What changed with a picture.
#[derive(Clone, Default)]
pub struct Tick {
    /// The number of the picture; 0: there is none yet.
    pub number: u64,
    /// As an event.
    pub event: Bytes,
}

/// What the latest pictures had.
#[derive(Default)]
pub struct State {
    pub boards: Boards,
    table: Table,
    /// All of the latest picture, as an event.
    whole: Option<Tick>,
    /// Of which series details are wanted, by the numbers of their tracks, and since when.
    wanted: Vec<(u64, Instant)>,
}

#[derive(Default)]
struct Pages {
    connected: usize,
    /// There is a thread that takes pictures.
    running: bool,
}

pub struct Hub {
    exposed: Vec<String>,
    globs: Vec<String>,
    pages: Mutex<Pages>,
    state: Mutex<State>,
    latest: watch::Sender<Tick>,
}

/// A page that is connected.
pub struct Page {
    hub: Arc<Hub>,
    ticks: watch::Receiver<Tick>,
    /// The number of the picture that it has; 0: none.
    has: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// Fails if a pattern is wrong.
    pub fn new(exposed: &Exposed) -> Result<Arc<Self>, Failure> {
        Select::new(&exposed.globs)?;
        Ok(Arc::new(Self {
            exposed: exposed.segments.clone(),
            globs: exposed.globs.clone(),
            pages: Mutex::default(),
            state: Mutex::default(),
            latest: watch::Sender::new(Tick::default()),
        }))
    }

    /// Let a page in. `None`: there are too many.
    pub fn join(self: &Arc<Self>) -> Option<Page> {
        let mut pages = lock(&self.pages);
        if pages.connected >= PAGES {
            return None;
        }
        if !pages.running {
            let hub = self.clone();
            let thread = std::thread::Builder::new().name("pictures".into());
            if let Err(e) = thread.spawn(move || hub.run()) {
                say(&format!("no thread can be started for the page: {e}"));
                return None;
            }
            pages.running = true;
        }
        pages.connected += 1;
        Some(Page {
            hub: self.clone(),
            ticks: self.latest.subscribe(),
            has: 0,
        })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Take pictures until no page is there for a while.
    fn run(&self) {
        let select = Select::new(&self.globs).unwrap_or_default();
        let mut files = Files::patient(&self.exposed, select);
        let mut used = Instant::now();
        loop {
            let begin = Instant::now();
            self.look(&mut files);
            // With so many series that a picture takes longer, half of a CPU.
            let wait = PERIOD.saturating_sub(begin.elapsed()).max(begin.elapsed());
            std::thread::sleep(wait.min(LINGER));
            if self.is_over(&mut used) {
                return;
            }
        }
    }

    /// Whether no page was there for a while. Then all is as it was before the first one.
    fn is_over(&self, used: &mut Instant) -> bool {
        let mut pages = lock(&self.pages);
        if pages.connected > 0 {
            *used = Instant::now();
        }
        let over = used.elapsed() >= LINGER;
        if over {
            pages.running = false;
            *self.state() = State::default();
            self.latest.send_replace(Tick::default());
        }
        over
    }

    fn look(&self, files: &mut Files) {
        let mut state = self.state();
        let wanted = state.wanted();
        let said = files.look(&mut state.boards, &wanted);
        let tick = state.tick(said);
        drop(state);
        self.latest.send_replace(tick);
    }
}

impl State {
    /// Ask for details of a series with the next pictures.
    pub fn want(&mut self, track: u64) {
        let now = Instant::now();
        self.wanted
            .retain(|(id, at)| *id != track && now - *at < ASKED);
        if self.wanted.len() >= DETAILED {
            self.wanted.remove(0);
        }
        self.wanted.push((track, now));
    }

    /// The numbers of descriptions of which details are wanted, rising.
    fn wanted(&mut self) -> Vec<u64> {
        let now = Instant::now();
        self.wanted.retain(|(_, at)| now - *at < ASKED);
        if self.wanted.is_empty() {
            return Vec::new();
        }
        let tracks = self.boards.iter().flat_map(|b| &b.tracks);
        let is_wanted = |id: u64| self.wanted.iter().any(|(w, _)| *w == id);
        let wanted = tracks.filter(|t| is_wanted(t.id)).map(|t| t.about.id);
        let mut wanted: Vec<u64> = wanted.collect();
        wanted.sort_unstable();
        wanted
    }

    /// What is new in the latest pictures.
    fn tick(&mut self, said: Vec<String>) -> Tick {
        let taken = seconds(SystemTime::now());
        let event = self.table.update(&self.boards, taken, said);
        self.whole = None;
        Tick {
            number: self.table.number(),
            event,
        }
    }

    /// All of the latest picture: made once for all pages that need it.
    fn whole(&mut self) -> Tick {
        let (table, boards) = (&self.table, &self.boards);
        let made = || Tick {
            number: table.number(),
            event: table.whole(boards),
        };
        self.whole.get_or_insert_with(made).clone()
    }
}

impl Page {
    /// The next event: what changed with the next picture; or all of the latest one, if the page
    /// has not the one before. So no more than one event waits for a page that reads slowly.
    pub async fn next(&mut self) -> Option<Bytes> {
        let has = self.has;
        let tick = self.ticks.wait_for(|tick| tick.number > has).await;
        let tick = tick.ok()?.clone();
        let tick = if has > 0 && tick.number == has + 1 {
            tick
        } else {
            let hub = self.hub.clone();
            let whole = tokio::task::spawn_blocking(move || hub.state().whole());
            whole.await.ok()?
        };
        self.has = tick.number;
        Some(tick.event)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        lock(&self.hub.pages).connected -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::message;
    use super::*;
    use crate::model::Change;

    fn hub() -> Arc<Hub> {
        Hub::new(&Exposed {
            segments: vec!["/nonexistent/segment".into()],
            globs: Vec::new(),
            labels: Vec::new(),
        })
        .unwrap()
    }

    /// The numbers of events, and whether they have all.
    fn next(page: &mut Page) -> (u64, bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let event = runtime.unwrap().block_on(page.next()).unwrap();
        let json = std::str::from_utf8(&event[6..]).unwrap();
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        (
            json["number"].as_u64().unwrap(),
            json["whole"].as_bool().unwrap(),
        )
    }

    #[test]
    fn a_page_that_reads_slowly_skips_events_and_gets_the_latest() {
        let hub = hub();
        // As if there were a thread: pictures are taken by this test.
        lock(&hub.pages).running = true;
        let mut files = Files::patient(&hub.exposed, Select::default());
        hub.look(&mut files);
        let (mut slow, mut fast) = (hub.join().unwrap(), hub.join().unwrap());
        assert_eq!([next(&mut slow), next(&mut fast)], [(1, true); 2]);
        for number in 2..100 {
            hub.look(&mut files);
            assert_eq!(next(&mut fast), (number, false));
        }
        assert_eq!(next(&mut slow), (99, true));
        hub.look(&mut files);
        assert_eq!([next(&mut slow), next(&mut fast)], [(100, false); 2]);
    }

    /// All of the latest picture may be newer than the latest event.
    #[test]
    fn a_page_gets_no_picture_twice() {
        let hub = hub();
        lock(&hub.pages).running = true;
        let mut files = Files::patient(&hub.exposed, Select::default());
        hub.look(&mut files);
        let mut page = hub.join().unwrap();
        let event = hub.state().tick(Vec::new());
        assert_eq!(next(&mut page), (2, true));
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build().unwrap();
        let mut nothing_comes = || {
            let next =
                async { tokio::time::timeout(Duration::from_millis(100), page.next()).await };
            runtime.block_on(next).is_err()
        };
        assert!(nothing_comes());
        hub.latest.send_replace(event);
        assert!(nothing_comes());
        hub.look(&mut files);
        assert_eq!(next(&mut page), (3, false));
    }

    #[test]
    fn a_page_that_comes_after_all_have_gone_waits_for_a_new_picture() {
        let hub = hub();
        lock(&hub.pages).running = true;
        let mut files = Files::patient(&hub.exposed, Select::default());
        hub.look(&mut files);
        let mut page = hub.join().unwrap();
        assert_eq!(next(&mut page), (1, true));
        let long_ago = || Instant::now().checked_sub(LINGER).unwrap();
        assert!(!hub.is_over(&mut long_ago()));
        drop(page);
        assert!(!hub.is_over(&mut Instant::now()));
        assert!(hub.is_over(&mut long_ago()));
        let running = std::mem::replace(&mut lock(&hub.pages).running, true);
        let mut page = hub.join().unwrap();
        assert_eq!((running, page.ticks.borrow().number), (false, 0));
        let mut files = Files::patient(&hub.exposed, Select::default());
        hub.look(&mut files);
        assert_eq!(next(&mut page), (1, true));
    }

    #[test]
    fn details_are_of_few_series() {
        let mut state = State::default();
        for id in 0..1000 {
            state.want(id);
            state.want(7);
        }
        let wanted: Vec<_> = state.wanted.iter().map(|(id, _)| *id).collect();
        let latest = 1001 - DETAILED as u64..1000;
        assert_eq!(wanted, latest.chain([7]).collect::<Vec<_>>());
    }

    /// A picture has its series by names, whatever the numbers of their descriptions are.
    #[test]
    fn descriptions_with_details_are_in_order() {
        let mut state = State::default();
        let picture = message::tests::picture(&[9, 5, 7]);
        state.boards.update("a", picture, Change::None);
        let tracks: Vec<_> = state.boards[0].tracks.iter().map(|t| t.id).collect();
        tracks.iter().for_each(|id| state.want(*id));
        assert_eq!(state.wanted(), [5, 7, 9]);
    }
}
