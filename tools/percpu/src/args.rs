// SPDX-License-Identifier: MIT
//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

const EXITS: &str = "Exit codes:
  0  done
  1  doctor found something to change; gc and reset: the answer was no
  2  wrong usage
  3  there is no such segment or metric, or several match
  4  the file may not be read, or not be changed
  5  the file is damaged, is no segment, or is of another version
  6  a process counts in the segment, or that cannot be known
  7  a system call failed, or the output could not be written
  8  doctor: the kernel breaks restartable sequences";

/// Look at the metrics of programs that count with libpercpu. A look costs those programs nothing.
///
/// A SEGMENT is given by its name, by the first letters of its name if no other name has them, or
/// by a path with a '/'. The segment NAME is the file /dev/shm/percpu.NAME or /run/percpu/NAME.
#[derive(Parser)]
#[command(name = "percpu", version, after_help = EXITS, max_term_width = 100)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Subcommand)]
pub enum Verb {
    /// List segments
    Ls(Ls),
    /// Print the values of a segment
    Show(Show),
    /// Print what changed in each second, or in a longer time
    Watch(Watch),
    /// Show values and rates on the full screen
    Top(Top),
    /// Serve metrics by HTTP: to Prometheus and others, and as a page for people
    Serve(Serve),
    /// Push metrics to an OpenTelemetry collector
    Push(Push),
    /// Write metrics into a file for the textfile collector of node_exporter
    Textfile(Textfile),
    /// Check this machine, or the file of a segment
    Doctor(Doctor),
    /// Remove segments in which no process counts
    Gc(Gc),
    /// Set the counts of a segment to 0
    Reset(Reset),
    /// Print what changed between two snapshots, or since one
    Diff(Diff),
    /// Print a script that completes this command in a shell
    Completions(Completions),
    /// Print the source of a man page: percpu man VERB | man -l -
    Man(Man),
}

/// Which series: a pattern of the name, or of the name and its labels.
const GLOB: &str =
    "Patterns of whole names, such as 'http_*'. A pattern with a '{' is compared with \
                    name and labels: '*{*code=\"5??\"*}'";

const LS_EXAMPLES: &str = "\
GEN is the generation, which grows with each reset, and AGE how old it is. WRITERS are the processes
that map the file for writing. \"≥1\" and \"?\": percpu may not look at some processes, as those of
other users. PROGRAM is the one that made the segment.

Examples:
  percpu ls /tmp/server
      one that is not in /dev/shm or /run/percpu
  percpu ls --json | jq -r '.segments[] | select(.error == null) | .name'
      names of those that can be read";

const SHOW_EXAMPLES: &str = "\
The value of a histogram is its number of observations. Below an owned gauge stands the share of
each process. The value leaves out processes that died. One that died with a share is listed until a
new process takes its place.

Examples:
  percpu show prefork 'prefork_requests*' --nonzero
      the requests that were counted, of each kind
  percpu show prefork --json > before.json
      all values, for \"percpu diff before.json prefork\" later";

const WATCH_EXAMPLES: &str = "\
The first look prints all series, the others what changed.

Examples:
  percpu watch prefork prefork_request_seconds -n 60
      requests in each minute, and their mean, p50, p90, p99 and max
  percpu watch prefork -n 10 --count 7 --csv > minute.csv
      a minute, for a spreadsheet";

const DIFF_EXAMPLES: &str = "\
Examples:
  percpu show prefork --json > before.json; sleep 60; percpu diff before.json prefork
      what a minute has brought
  percpu diff before.json after.json --json | jq '.series[] | select(.rate > 100) | .name'
      what grew by more than 100 in a second";

#[derive(clap::Args)]
#[command(after_help = LS_EXAMPLES)]
pub struct Ls {
    /// Names or paths of segments; without them: all in /dev/shm and /run/percpu
    pub segments: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// In which order series are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    Name,
    Value,
}

#[derive(clap::Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub struct Show {
    /// Name or path of a segment
    pub segment: String,
    #[arg(help = GLOB)]
    pub globs: Vec<String>,
    /// Print JSON: a snapshot for `percpu diff`
    #[arg(long, conflicts_with = "text")]
    pub json: bool,
    /// Print text for Prometheus, version 0.0.4
    #[arg(long)]
    pub text: bool,
    /// Print what each CPU has counted
    #[arg(long, conflicts_with = "text")]
    pub per_cpu: bool,
    /// Leave out what is 0
    #[arg(long)]
    pub nonzero: bool,
    /// Sort by name, or by value, the largest first
    #[arg(long, value_name = "ORDER", default_value = "name")]
    pub sort: Order,
}

#[derive(clap::Args)]
#[command(after_help = WATCH_EXAMPLES)]
pub struct Watch {
    /// Name or path of a segment
    pub segment: String,
    #[arg(help = GLOB)]
    pub globs: Vec<String>,
    /// Seconds between two looks
    #[arg(short = 'n', value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub interval: Duration,
    /// End after that many looks
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Print lines of CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print a line of JSON for each look
    #[arg(long)]
    pub json: bool,
}

/// Two examples, and the keys.
fn top_help() -> String {
    format!(
        "Examples:
  percpu top                  all segments
  percpu top -n 0.1 prefork   one segment, ten times a second
  percpu top --frames 3 >log  three screens as text

Keys:
{}

It leaves the terminal as it was, whatever ends it but SIGKILL.",
        crate::top::KEYS
            .lines()
            .map(|l| format!("  {l}"))
            .collect::<Vec<_>>()
            .join("\n")
    )
}

#[derive(clap::Args)]
#[command(after_help = top_help())]
pub struct Top {
    /// Names or paths of segments; without them: all in /dev/shm and /run/percpu
    pub segments: Vec<String>,
    /// Seconds between two looks
    #[arg(short = 'n', value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub interval: Duration,
    /// Print that many screens as text, and end: needs no terminal
    #[arg(long, value_name = "N")]
    pub frames: Option<u64>,
}

/// Which metrics are told to others.
#[derive(clap::Args)]
pub struct Exposed {
    /// Names or paths of segments; without them: all in /dev/shm and /run/percpu, also those that
    /// come later
    pub segments: Vec<String>,
    /// Series whose names match; may be given several times
    #[arg(long = "match", value_name = "GLOB")]
    pub globs: Vec<String>,
    /// A label that all series get; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
}

const SERVE: &str = "Examples:
  percpu serve                            all segments of this machine
  percpu serve shop --match 'http_*'      some metrics of one
  curl -s http://127.0.0.1:9180/metrics   what Prometheus gets
  xdg-open http://127.0.0.1:9180/         the page: all series live";

#[derive(clap::Args)]
#[command(after_help = SERVE)]
pub struct Serve {
    #[command(flatten)]
    pub exposed: Exposed,
    /// Where to listen, by default 127.0.0.1:9180; may be given several times
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub listen: Vec<SocketAddr>,
    /// A name by which clients call this machine; may be given several times. Addresses, localhost
    /// and the machine's own name need not be given. With a token or TLS, any name is served
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// Serve only clients that show the token in this file, as bearer or as password
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Serve by TLS, with the certificates in this file (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

const PUSH: &str = "\
The URL of a collector is http://HOST:PORT or https://HOST:PORT, to which /v1/metrics is appended. A
URL with a path is used as it is. grpc://HOST:PORT and grpcs://HOST:PORT are for gRPC, if percpu was
built with it. The environment gives OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME,
OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_COMPRESSION (gzip or none) and http_proxy. With a
SIGTERM it pushes a last time.

Examples:
  percpu push --otlp http://127.0.0.1:4318
      all segments of this machine, each minute
  percpu push --otlp https://otlp.example.com/otlp/v1/metrics --header 'authorization=Bearer x' shop
      one segment, to a service that wants a token
  percpu push --otlp http://127.0.0.1:4318 --once
      from a timer; the exit code is 7 if not all was accepted";

#[derive(clap::Args)]
#[command(after_help = PUSH)]
pub struct Push {
    #[command(flatten)]
    pub exposed: Exposed,
    /// Where the collector is
    #[arg(long, value_name = "URL")]
    pub otlp: String,
    /// Seconds between two pushes
    #[arg(short = 'n', value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub interval: Duration,
    /// Push once, and end
    #[arg(long, conflicts_with = "interval")]
    pub once: bool,
    /// A header of each request; may be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = label)]
    pub headers: Vec<(String, String)>,
    /// An attribute of each resource, such as service.name=shop; may be given several times
    #[arg(long = "resource", value_name = "NAME=VALUE", value_parser = label)]
    pub resource: Vec<(String, String)>,
    /// Certificates (PEM) by which that of the collector is checked, instead of those of Mozilla
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

const TEXTFILE: &str = "\
The file is DIR/percpu.prom, text for Prometheus, version 0.0.4. It is replaced as a whole.

Examples:
  percpu textfile /var/lib/prometheus/node-exporter -n 15
      all segments of this machine, every 15 seconds
  percpu textfile /var/lib/prometheus/node-exporter shop
      one segment, once: from a timer";

#[derive(clap::Args)]
#[command(after_help = TEXTFILE)]
pub struct Textfile {
    /// The folder that node_exporter reads: its --collector.textfile.directory
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    #[command(flatten)]
    pub exposed: Exposed,
    /// Seconds between two writes; without it: write once, and end
    #[arg(short = 'n', value_name = "SECONDS", value_parser = seconds)]
    pub interval: Option<Duration>,
}

const DOCTOR: &str = "Examples:
  percpu doctor         which tier this machine has, and what to change
  percpu doctor shop    whether the file of shop is whole, and has room left";

#[derive(clap::Args)]
#[command(after_help = DOCTOR)]
pub struct Doctor {
    /// Check this segment; without it: this machine
    pub segment: Option<String>,
}

const GC: &str = "Examples:
  percpu gc             list those in which no process counts, and ask
  percpu gc --yes shop  remove this one, if no process counts in it";

#[derive(clap::Args)]
#[command(after_help = GC)]
pub struct Gc {
    /// Names or paths of segments; without them: all in /dev/shm and /run/percpu
    pub segments: Vec<String>,
    /// Remove without asking
    #[arg(long)]
    pub yes: bool,
}

const RESET: &str = "Examples:
  percpu reset shop              ask, and set all counts of shop to 0
  percpu reset --yes ./test.seg  without asking, in a test";

#[derive(clap::Args)]
#[command(after_help = RESET)]
pub struct Reset {
    /// Name or path of a segment
    pub segment: String,
    /// Reset without asking
    #[arg(long)]
    pub yes: bool,
}

#[derive(clap::Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub struct Diff {
    /// The older snapshot: a file printed by `percpu show --json`, or a segment as it is now
    pub before: String,
    /// The newer snapshot, in the same way
    pub after: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const COMPLETIONS: &str = "Examples:
  percpu completions bash >~/.local/share/bash-completion/completions/percpu
  percpu completions fish >~/.config/fish/completions/percpu.fish ";

#[derive(clap::Args)]
#[command(after_help = COMPLETIONS)]
pub struct Completions {
    pub shell: clap_complete::Shell,
}

const MAN: &str = "Examples:
  percpu man top | man -l -      read a page
  percpu man gc >percpu-gc.1     keep one";

#[derive(clap::Args)]
#[command(after_help = MAN)]
pub struct Man {
    /// A verb; without it: the page of percpu itself
    pub verb: Option<String>,
}

/// Parse a label of the command line.
fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value.to_string())),
        _ => Err("give a name, '=' and a value, as in datacenter=north".to_string()),
    }
}

/// Parse where to listen.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "give an IP address and a port, as in 127.0.0.1:9180 or [::1]:9180; names are not looked up"
            .to_string()
    })
}

/// Parse a time between two looks.
fn seconds(text: &str) -> Result<Duration, String> {
    let says = "give seconds from 0.01 to 86400";
    let n: f64 = text.parse().map_err(|_| says.to_string())?;
    if (0.01..=86400.0).contains(&n) {
        Ok(Duration::from_secs_f64(n))
    } else {
        Err(says.to_string())
    }
}
