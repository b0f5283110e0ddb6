// SPDX-License-Identifier: MIT
//! A rate limit and a trace that processes share: the program starts itself again, and reads what
//! the other process has put.

use std::time::Duration;

use percpu::{Rate, Region, Ring, WhenFull};

/// Roots of the region, which all of its programs agree on.
const LOGINS: u32 = 0;
const TRACE: u32 = 1;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1);
    let region = Region::create(path.as_deref().unwrap_or("/dev/shm/shared_rust".as_ref()))?;
    let logins = Rate::open(&region, LOGINS, 5, Duration::from_secs(3600))?;
    let trace = Ring::open(&region, TRACE, 4096, WhenFull::Overwrite)?;
    let program = std::process::id();
    for _ in 0..4 {
        let word = if logins.check() { "allowed" } else { "refused" };
        trace.put(format!("process {program}: {word}").as_bytes())?;
    }
    if path.is_some() {
        return Ok(()); // it is the other process
    }
    let mut other = std::process::Command::new(std::env::current_exe()?);
    other.arg("/dev/shm/shared_rust").status()?;
    let mut reader = trace.reader()?;
    while let Some(record) = reader.read()? {
        println!("{}", String::from_utf8_lossy(record.data));
    }
    println!("{} allowed, {} refused", logins.allowed(), logins.refused());
    std::fs::remove_file("/dev/shm/shared_rust")?;
    Ok(())
}
