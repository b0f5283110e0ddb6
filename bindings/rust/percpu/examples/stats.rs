// SPDX-License-Identifier: MIT
//! Packets and bytes that are counted together: an average of both is never of half an update.

use percpu::Stats;

percpu::stats! {
    /// What came in.
    struct Traffic { packets, bytes }
}

fn main() -> Result<(), percpu::Error> {
    let traffic = Stats::<Traffic>::new()?;
    std::thread::scope(|s| {
        s.spawn(|| {
            (0..1000).try_for_each(|_| {
                traffic.update(&Traffic {
                    packets: 1,
                    bytes: 60,
                })
            })
        });
        for _ in 0..3 {
            if let Ok(Traffic { packets, bytes }) = traffic.snapshot() {
                println!(
                    "{packets} packets of {} bytes",
                    bytes.checked_div(packets).unwrap_or(0)
                );
            }
        }
    });
    println!("{:?}", traffic.fetch()?);
    Ok(())
}
