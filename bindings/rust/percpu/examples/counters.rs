// SPDX-License-Identifier: MIT
//! Counters, gauges and latest values of this process, and a counter that counts before `main`.

use percpu::{Counter, FCounter, FGauge, Gauge, Latest};

percpu::static_counter! { static STARTS }

fn main() -> Result<(), percpu::Error> {
    let (requests, seconds) = (Counter::new()?, FCounter::new()?);
    let (connections, load, celsius) = (Gauge::new()?, FGauge::new()?, Latest::new()?);
    STARTS.inc();
    requests.add(3);
    seconds.add(0.25)?;
    connections.inc();
    load.set(0.5)?;
    celsius.set(21.5)?;
    println!(
        "{} starts, {} requests in {} s",
        STARTS.fetch(),
        requests.fetch(),
        seconds.fetch()
    );
    println!("{} connections, load {}", connections.fetch(), load.fetch());
    println!("{} °C", celsius.fetch()?.0);
    Ok(())
}
