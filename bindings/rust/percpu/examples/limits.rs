// SPDX-License-Identifier: MIT
//! Extrema, a rate limit, and a sum that is kept below a limit.

use std::time::Duration;

use percpu::{ApproxSum, Extrema, Rate};

fn main() -> Result<(), percpu::Error> {
    let (sizes, logins, memory) = (
        Extrema::new()?,
        Rate::new(5, Duration::from_secs(60))?,
        ApproxSum::new()?,
    );
    for size in [300, 20, 5000] {
        sizes.observe(size)?;
        if memory.add_below(size, 5100).is_err() {
            println!("{size} bytes more are refused");
        }
    }
    let (min, max) = sizes.fetch()?;
    println!("from {min} to {max} bytes; {} are taken", memory.fetch());
    println!(
        "{} of 8 logins are allowed",
        (0..8).filter(|_| logins.check()).count()
    );
    Ok(())
}
