// SPDX-License-Identifier: MIT
//! Exporters of Rust crates, for a benchmark in C++: each prints so many counters as text. They are in
//! ten families with the labels code and path, as those that "percpu serve" is measured with.

use std::ffi::{c_char, c_void, CStr};

use metrics::{Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use prometheus::{Encoder, IntCounterVec, Opts, TextEncoder};
use prometheus_client::metrics::{counter::Counter, family::Family};
use prometheus_client::registry::Registry;

const FAMILIES: usize = 10;
const HELP: &str = "Requests that were answered.";

/// One crate's exporter.
#[repr(C)]
pub struct Exporter {
    name: *const c_char,
    create: extern "C" fn(usize) -> *mut c_void,
    print: unsafe extern "C" fn(*const c_void) -> usize,
    destroy: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: the names are constants, and the functions may be called by any thread.
unsafe impl Sync for Exporter {}

trait Print: Sized {
    /// With so many series, each counted on once.
    fn new(series: usize) -> Self;
    /// Print them once. Returns the bytes.
    fn print(&self) -> usize;
}

extern "C" fn create<T: Print>(series: usize) -> *mut c_void {
    Box::into_raw(Box::new(T::new(series))).cast()
}

/// SAFETY: of create::<T>(), and not destroyed.
unsafe extern "C" fn print<T: Print>(of: *const c_void) -> usize {
    // SAFETY: as above.
    unsafe { &*of.cast::<T>() }.print()
}

/// SAFETY: as print(), and it is not used any more.
unsafe extern "C" fn destroy<T: Print>(of: *mut c_void) {
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(of.cast::<T>()) })
}

const fn exporter<T: Print>(name: &'static CStr) -> Exporter {
    Exporter {
        name: name.as_ptr(),
        create: create::<T>,
        print: print::<T>,
        destroy: destroy::<T>,
    }
}

fn values(i: usize) -> [String; 2] {
    [(200 + i % 7).to_string(), format!("/items/{i}")]
}

struct Client(Registry);

impl Print for Client {
    fn new(series: usize) -> Self {
        let mut registry = Registry::default();
        let mut families: Vec<Family<[(&'static str, String); 2], Counter>> = Vec::new();
        for i in 0..FAMILIES {
            families.push(Family::default());
            registry.register(format!("bench_requests_{i}"), HELP, families[i].clone());
        }
        for i in 0..series {
            let [code, path] = values(i);
            let labels = [("code", code), ("path", path)];
            families[i % FAMILIES].get_or_create(&labels).inc();
        }
        Self(registry)
    }

    fn print(&self) -> usize {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.0).expect("a text");
        text.len()
    }
}

struct Crate(prometheus::Registry);

impl Print for Crate {
    fn new(series: usize) -> Self {
        let registry = prometheus::Registry::new();
        let families: Vec<_> = (0..FAMILIES)
            .map(|i| {
                let opts = Opts::new(format!("bench_requests_{i}_total"), HELP);
                let family = IntCounterVec::new(opts, &["code", "path"]).expect("a family");
                registry
                    .register(Box::new(family.clone()))
                    .expect("a registry");
                family
            })
            .collect();
        for i in 0..series {
            let [code, path] = values(i);
            families[i % FAMILIES]
                .with_label_values(&[&code, &path])
                .inc();
        }
        Self(registry)
    }

    fn print(&self) -> usize {
        let mut text = Vec::new();
        let all = self.0.gather();
        TextEncoder::new().encode(&all, &mut text).expect("a text");
        text.len()
    }
}

struct Facade(PrometheusRecorder);

impl Print for Facade {
    fn new(series: usize) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let metadata = Metadata::new(module_path!(), Level::INFO, None);
        for i in 0..series {
            let [code, path] = values(i);
            let labels = vec![Label::new("code", code), Label::new("path", path)];
            let name = format!("bench_requests_{}_total", i % FAMILIES);
            let key = Key::from_parts(name, labels);
            recorder.register_counter(&key, &metadata).increment(1);
        }
        Self(recorder)
    }

    fn print(&self) -> usize {
        self.0.handle().render().len()
    }
}

static EXPORTERS: [Exporter; 3] = [
    exporter::<Client>(c"crate prometheus-client"),
    exporter::<Crate>(c"crate prometheus"),
    exporter::<Facade>(c"crate metrics-exporter-prometheus"),
];

/// Returns all exporters; the caller knows that there are three.
#[no_mangle]
pub extern "C" fn exporters_of_scrape() -> *const Exporter {
    EXPORTERS.as_ptr()
}
