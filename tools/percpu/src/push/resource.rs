// SPDX-License-Identifier: MIT
//! What the metrics of a file are of: attributes of its resource.

use std::collections::{HashMap, HashSet};

use opentelemetry_proto::tonic::common::v1::KeyValue;

use super::pairs;
use super::points::attribute;
use crate::expose::Origin;
use crate::failure::Failure;

/// The attributes that all resources have, and what is remembered of files.
pub struct Resources {
    host: String,
    /// They replace those that are made here.
    given: Vec<(String, String)>,
    /// The programs of files, by their names: a file that cannot be read keeps its resource.
    programs: HashMap<String, String>,
    /// The files of this round.
    seen: HashSet<String>,
}

impl Resources {
    /// Those of the command line, and of the environment if the former do not have them.
    pub fn new(given: &[(String, String)]) -> Result<Self, Failure> {
        let mut all = pairs::of_environment("OTEL_RESOURCE_ATTRIBUTES")?;
        let name = std::env::var("OTEL_SERVICE_NAME").unwrap_or_default();
        all.extend((!name.is_empty()).then_some(("service.name".to_string(), name)));
        all.extend_from_slice(given);
        let host = rustix::system::uname().nodename().to_string_lossy().into();
        Ok(Self {
            host,
            given: all,
            programs: HashMap::new(),
            seen: HashSet::new(),
        })
    }

    /// The attributes of a file.
    pub fn of(&mut self, origin: &Origin<'_>) -> Vec<KeyValue> {
        let name = origin.name.to_string();
        if let Some(program) = origin.program {
            self.programs.insert(name.clone(), program.to_string());
        }
        let program = self.programs.get(&name).filter(|p| !p.is_empty());
        let mut all = vec![
            (
                "service.name".to_string(),
                program.unwrap_or(&name).to_string(),
            ),
            (
                "service.instance.id".to_string(),
                format!("{name}@{}", self.host),
            ),
            ("host.name".to_string(), self.host.clone()),
        ];
        for (key, value) in &self.given {
            all.retain(|(k, _)| k != key);
            all.push((key.clone(), value.clone()));
        }
        self.seen.insert(name);
        all.iter().map(|(k, v)| attribute(k, v)).collect()
    }

    /// All files were seen: forget those that are gone.
    pub fn end(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        self.programs.retain(|name, _| seen.contains(name));
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_keeps_its_resource() {
        let mut resources = Resources::new(&[]).unwrap();
        let mut round = |files: &[(&str, Option<&str>)]| {
            let of = |(name, program): &(&str, Option<&str>)| {
                let taken = SystemTime::UNIX_EPOCH;
                let origin = Origin {
                    name,
                    program: *program,
                    taken,
                };
                let of = resources.of(&origin);
                of.into_iter().find(|a| a.key == "service.name").unwrap()
            };
            let all: Vec<_> = files.iter().map(of).collect();
            resources.end();
            (all, resources.programs.len())
        };
        let name = |text| attribute("service.name", text);
        let (a, b) = (("a", Some("shop")), ("b", Some("bank")));
        assert_eq!(round(&[a, b]), (vec![name("shop"), name("bank")], 2));
        let (a, b) = (("a", None), ("b", None));
        assert_eq!(round(&[a, b]), (vec![name("shop"), name("bank")], 2));
        // What is gone is forgotten.
        assert_eq!(round(&[b]), (vec![name("bank")], 1));
        assert_eq!(round(&[a]), (vec![name("a")], 0));
    }
}
