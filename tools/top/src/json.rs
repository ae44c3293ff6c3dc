// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The form for programs: an object for each interval.
//!
//! ```json
//! {"time": 1700000000.5, "seconds": 1.0, "disks": [{"disk": "vda", "iops": 100.0, ...,
//!  "signals": 90, "added": {"completions": 100, ...}, "queues": [{"queue": 0, ...}]}]}
//! ```
//!
//! A figure that cannot be computed is null. `added` has what each counter has counted in the
//! interval, so that sums over intervals are exact.

use crate::change::Change;
use crate::figure::FIGURES;
use crate::report::Report;
use serde_json::{json, Map, Value};
use std::time::UNIX_EPOCH;

/// The object of one interval.
pub fn object(report: &Report) -> Value {
    let time = report.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let disks = report.disks.iter().map(|disk| {
        let queues = disk.queues.iter();
        let queues: Vec<_> = queues
            .map(|(number, change)| with_figures(change, "queue", json!(number)))
            .map(Value::Object)
            .collect();
        let mut object = with_figures(&disk.total, "disk", json!(disk.name));
        object.insert("queues".to_owned(), Value::Array(queues));
        Value::Object(object)
    });
    json!({
        "time": time.as_secs_f64(),
        "seconds": report.seconds,
        "disks": disks.collect::<Vec<_>>(),
    })
}

fn with_figures(change: &Change, kind: &str, name: Value) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert(kind.to_owned(), name);
    object.insert("signals".to_owned(), json!(change.signals));
    object.insert("added".to_owned(), json!(change.added));
    for figure in &FIGURES {
        object.insert(figure.name.to_owned(), json!(figure.of(change)));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::DiskReport;
    use std::time::Duration;

    #[test]
    fn figures_and_counts_of_disks_and_queues() {
        let change = Change {
            seconds: 0.5,
            added: [("completions".to_owned(), 7)].into(),
            signals: Some(3),
            ..Change::default()
        };
        let report = Report {
            time: UNIX_EPOCH + Duration::from_millis(1500),
            seconds: 0.5,
            disks: vec![DiskReport {
                name: "vdb".into(),
                total: change.clone(),
                queues: vec![(4, change)],
            }],
        };
        let object = object(&report);
        assert_eq!(object["time"], json!(1.5));
        assert_eq!(object["seconds"], json!(0.5));
        let disk = &object["disks"][0];
        assert_eq!(disk["disk"], json!("vdb"));
        assert_eq!(disk["queues"][0]["queue"], json!(4));
        for object in [disk, &disk["queues"][0]] {
            assert_eq!(object["iops"], json!(14.0));
            assert_eq!(object["signals_per_s"], json!(6.0));
            assert_eq!(
                (&object["signals"], &object["added"]["completions"]),
                (&json!(3), &json!(7))
            );
            assert_eq!(object["kicks_per_s"], Value::Null);
        }
        assert!(!object.to_string().contains('\n'));
    }
}
