// SPDX-License-Identifier: MIT
//! Files that others replace, damage and remove between two answers.

use percpu::{Metric, Segment};

use super::*;
use crate::expose::names::Escaping;
use crate::expose::text::Text;

/// A folder that no other test has. It is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(what: &str) -> Self {
        let name = format!("percpu-collect-{what}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn collector(segments: &[String]) -> Collector {
    let exposed = Exposed {
        segments: segments.to_vec(),
        globs: Vec::new(),
        labels: Vec::new(),
    };
    Collector::new(&exposed).unwrap()
}

/// An answer: the values of the counter, which files are up, and what is said.
fn print(collector: &mut Collector) -> (Vec<String>, Vec<String>, Vec<String>) {
    let mut out = Vec::new();
    let news = collector.print(&mut Text::new(Escaping::Underscores), &mut |more| {
        out.append(more);
    });
    let text = String::from_utf8(out).unwrap();
    let values = |name: &str| {
        let lines = text.lines().filter(|l| l.starts_with(name));
        let last = lines.filter_map(|l| l.rsplit(' ').next());
        last.map(String::from).collect::<Vec<_>>()
    };
    (values("n_total{"), values("percpu_segment_up{"), news)
}

fn make(path: &str, n: u64) {
    let segment = Segment::create(path).unwrap();
    segment.counter(&Metric::new("n_total")).unwrap().add(n);
}

/// How often this process has a file of that folder that was removed.
fn removed_but_open(folder: &Folder) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open: Vec<_> = links
        .filter_map(|l| std::fs::read_link(l.path()).ok())
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let names = open.iter().map(String::as_str).chain(maps.lines());
    let folder = folder.0.to_str().unwrap();
    names
        .filter(|n| n.contains(folder) && n.ends_with(" (deleted)"))
        .count()
}

#[test]
fn a_file_that_is_replaced_is_read_at_once_and_the_old_one_closed() {
    let folder = Folder::new("replaced");
    let path = folder.file("a");
    make(&path, 1);
    let mut collector = collector(std::slice::from_ref(&path));
    let values = |(values, up, news): (Vec<String>, Vec<String>, Vec<String>)| {
        (values.join(" "), up.join(" "), news.len())
    };
    let mut look = || values(print(&mut collector));
    assert_eq!(look(), ("1".into(), "1".into(), 0));
    for n in ["2", "3"] {
        std::fs::remove_file(&path).unwrap();
        make(&path, n.parse().unwrap());
        assert_eq!(look(), (n.into(), "1".into(), 0));
        assert_eq!(removed_but_open(&folder), 0);
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(look(), (String::new(), "0".into(), 1));
    assert_eq!(look(), (String::new(), "0".into(), 0));
    assert_eq!(removed_but_open(&folder), 0);
    // Another reason is news, and so is the end of all of them.
    std::fs::write(&path, "no segment").unwrap();
    assert_eq!(look(), (String::new(), "0".into(), 1));
    std::fs::remove_file(&path).unwrap();
    make(&path, 4);
    assert_eq!(look(), ("4".into(), "1".into(), 1));
    assert_eq!(look(), ("4".into(), "1".into(), 0));
}

#[test]
fn more_files_than_are_kept_open_are_all_in_each_answer() {
    let folder = Folder::new("many");
    let paths: Vec<_> = (0..=MOST).map(|i| folder.file(&format!("{i}"))).collect();
    make(&paths[0], 1);
    let link = |path: &String| std::fs::hard_link(&paths[0], path).unwrap();
    paths[1..].iter().for_each(link);
    let mut collector = collector(&paths);
    for _ in 0..2 {
        let (values, up, news) = print(&mut collector);
        assert_eq!((values.len(), up.len()), (paths.len(), paths.len()));
        assert!(up.iter().all(|up| up == "1") && news.is_empty(), "{news:?}");
        assert_eq!(collector.open.len(), MOST);
    }
}

#[test]
fn starts_that_are_near_are_the_same() {
    let at = |ms: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000 + ms);
    assert_eq!(stable(None, at(7)), at(7));
    assert_eq!(stable(Some(at(0)), at(9)), at(0));
    assert_eq!(stable(Some(at(9)), at(0)), at(9));
    assert_eq!(stable(Some(at(0)), at(10)), at(10));
    assert_eq!(stable(Some(at(10)), at(0)), at(0));
}
