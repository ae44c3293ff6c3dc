// SPDX-License-Identifier: GPL-2.0

//! The pure files of drivers/block, as they are.

#[path = "../../../drivers/block/answers.rs"]
pub mod answers;
#[path = "../../../drivers/block/coalesce.rs"]
pub mod coalesce;
#[path = "../../../drivers/block/completion.rs"]
pub mod completion;
#[path = "../../../drivers/block/histogram.rs"]
pub mod histogram;
#[path = "../../../drivers/block/limits.rs"]
pub mod limits;
#[path = "../../../drivers/block/name.rs"]
pub mod name;
#[path = "../../../drivers/block/named.rs"]
mod named;
#[path = "../../../drivers/block/ranges.rs"]
pub mod ranges;
#[path = "../../../drivers/block/request.rs"]
pub mod request;
#[path = "../../../drivers/block/suppress.rs"]
pub mod suppress;
#[path = "../../../drivers/block/zone_report.rs"]
pub mod zone_report;
#[path = "../../../drivers/block/zones.rs"]
pub mod zones;
