// SPDX-License-Identifier: MIT
//! Which process and which CPU has how much.

use super::track::{Fine, Track};
use super::{Owner, Share};

/// What each process has or had of one, and whether it is still in the file.
pub fn of_processes(track: &Track, number: u64) -> Vec<(Share, bool)> {
    let mut all: Vec<(Share, bool)> = Vec::new();
    for (i, fine) in track.fine(number).enumerate() {
        for share in &fine.details.shares {
            let same = |o: &Owner| o.pid == share.owner.pid && o.name == share.owner.name;
            if !all.iter().any(|(s, _)| same(&s.owner)) {
                let mut share = share.clone();
                share.owner.alive &= i == 0;
                all.push((share, i == 0));
            }
        }
    }
    all
}

/// What each CPU added lately, to all of them, and in how many seconds; or, where that is not known, in
/// all. `None` without details of that picture.
pub fn of_cpus(tracks: &[&Track], number: u64) -> Option<(Vec<f64>, Option<f64>)> {
    let mut now: Vec<f64> = Vec::new();
    let mut recent: Option<(Vec<f64>, f64)> = Some((Vec::new(), 0.0));
    for track in tracks {
        let mut fine = track.fine(number);
        let latest = fine.next().filter(|f| f.number == number)?;
        add(&mut now, &latest.details.cpus);
        let since = fine.last().and_then(|then| since(latest, then));
        recent = match (recent, since) {
            (Some((mut sum, most)), Some((cells, seconds))) => {
                add(&mut sum, &cells);
                Some((sum, seconds.max(most)))
            }
            _ => None,
        };
    }
    let grew = |c: &(Vec<f64>, f64)| c.0.iter().any(|x| *x > 0.0);
    Some(match recent.filter(grew) {
        Some((cells, seconds)) => (cells, Some(seconds)),
        None => (now, None),
    })
}

/// Add what CPUs have to what they have.
fn add(sum: &mut Vec<f64>, cells: &[f64]) {
    sum.resize(sum.len().max(cells.len()), 0.0);
    sum.iter_mut().zip(cells).for_each(|(s, c)| *s += c);
}

/// What CPUs added between two moments, and how many seconds that were. `None` if some have less.
fn since(now: &Fine, then: &Fine) -> Option<(Vec<f64>, f64)> {
    let pairs = now.details.cpus.iter().zip(&then.details.cpus);
    let cells: Vec<f64> = pairs.map(|(a, b)| a - b).collect();
    let seconds = (now.moment - then.moment).as_secs_f64();
    cells.iter().all(|c| *c >= 0.0).then_some((cells, seconds))
}
