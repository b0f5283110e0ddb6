// SPDX-License-Identifier: MIT
//! Records of all threads, in the order of their times.

use percpu::{Ring, WhenFull};

fn main() -> Result<(), percpu::Error> {
    let ring = Ring::new(4096, WhenFull::Overwrite)?;
    std::thread::scope(|s| {
        for name in ["one", "two"] {
            let ring = &ring;
            s.spawn(move || (0..3).try_for_each(|n| ring.put(format!("{name}: {n}").as_bytes())));
        }
    });
    let mut reader = ring.reader()?;
    while let Some(record) = reader.read()? {
        println!(
            "{} CPU {}: {}",
            record.time,
            record.cpu,
            String::from_utf8_lossy(record.data)
        );
    }
    Ok(())
}
