// SPDX-License-Identifier: MIT
//! Requests by path, requests in flight by process, and a reader that prints all of it.

use percpu::{Counter, Metric, Owners, Reader, Rule, Segment};

fn main() -> Result<(), percpu::Error> {
    let name = std::env::args().nth(1).unwrap_or("families_rust".into());
    let segment = Segment::create(&name)?;
    let metric = Metric::new("requests_total").help("Requests, by path.");
    let requests = segment.family::<Counter>(&metric, &["path"], 100)?;
    let in_flight = segment.owned_gauge(&Metric::new("requests_in_flight"), Rule::Sum)?;

    in_flight.add(1)?;
    requests.add(&["/"], 1)?;
    requests.add(&["/login"], 2)?;
    requests
        .exemplars(&["/login"])?
        .store(2.0, &[("trace_id", "4bf92f35")])?;
    println!("{} in flight", in_flight.fetch(Owners::Living)?);
    in_flight.add(-1)?;

    let mut reader = Reader::open(&name)?;
    let picture = reader.read()?;
    for series in picture.series() {
        println!(
            "{} {:?}: {:?}",
            series.name(),
            series.labels().collect::<Vec<_>>(),
            series.value()?
        );
    }
    print!("{}", picture.prometheus()?);
    Ok(())
}
