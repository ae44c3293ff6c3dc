// SPDX-License-Identifier: GPL-2.0

//! What the driver asks the device about itself, by requests of its own. All functions run in
//! process context, and wait for the device.

use crate::{
    answers::{self, Lifetime},
    device::BlockDriver,
    request::{self, Kind},
};
use blk_mq::Disk;
use kernel::prelude::*;

/// Asks for `len` bytes.
///
/// # Errors
///
/// `ENODEV` if the disk is being removed; `EOPNOTSUPP` or `EIO` if that is the device's answer;
/// `ENOMEM`.
fn ask(disk: &Disk<BlockDriver>, kind: Kind, len: usize) -> Result<KVVec<u8>> {
    let mut answer = KVVec::from_elem(0, len, GFP_KERNEL)?;
    let header = request::encode(disk.device().order(), kind, 0, 0);
    disk.execute(header, &mut answer)?;
    Ok(answer)
}

/// The serial number as the device tells it, of which [`answers::serial`] is a part. [`None`] if it
/// does not know the question, or fails it: it has none then.
///
/// # Errors
///
/// `ENODEV` if the disk is being removed; `ENOMEM`.
pub(crate) fn serial(disk: &Disk<BlockDriver>) -> Result<Option<KVVec<u8>>> {
    match ask(disk, Kind::GetId, answers::SERIAL) {
        Ok(answer) => Ok(Some(answer)),
        Err(EOPNOTSUPP | EIO) => Ok(None),
        Err(err) => Err(err),
    }
}

/// How worn the device is.
///
/// # Errors
///
/// As for [`ask`].
pub(crate) fn lifetime(disk: &Disk<BlockDriver>) -> Result<Lifetime> {
    let answer = ask(disk, Kind::GetLifetime, Lifetime::LEN)?;
    Lifetime::decode(&answer).ok_or(EIO)
}
