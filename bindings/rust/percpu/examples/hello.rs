// SPDX-License-Identifier: MIT
//! Threads count in a segment: `cargo run --example hello --features vendored`, then `percpu-show
//! hello_rust`.

use percpu::{HistogramOptions, Metric, Segment};

fn main() -> Result<(), percpu::Error> {
    let segment = Segment::create("hello_rust")?;
    let requests = segment.counter(&Metric::new("hello_requests_total").help("Requests."))?;
    let seconds = segment.histogram(
        &Metric::new("hello_request_seconds").unit("seconds"),
        &HistogramOptions::new(),
    )?;
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..1000 {
                    let _timer = seconds.timer();
                    requests.inc();
                }
            });
        }
    });
    println!("{} requests", requests.fetch());
    println!(
        "half of them took at most {} s",
        seconds.fetch()?.quantile(0.5)?.high
    );
    Ok(())
}
