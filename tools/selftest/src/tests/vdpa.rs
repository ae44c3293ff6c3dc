// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! A device on vDPA: QEMU's storage daemon, in the guest itself, behind the kernel's VDUSE.

use crate::fio;
use crate::guest::secs;
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use vm::Vm;

/// Tells the kernel to put the device `vduse0` of the user-space manager on the vDPA bus, as `vdpa
/// dev add name vduse0 mgmtdev vduse` does: one message of the generic netlink family "vdpa".
const ADD: &str = r#"
import socket, struct
def attribute(kind, data):
    return struct.pack("HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)
def ask(family, flags, command, payload):
    body = struct.pack("BBxx", command, 1) + payload
    netlink.send(struct.pack("IHHII", 16 + len(body), family, flags | 1, 1, 0) + body)
    answer = netlink.recv(65536)
    kind = struct.unpack_from("H", answer, 4)[0]
    error = struct.unpack_from("i", answer, 16)[0] if kind == 2 else 0
    if error:
        raise OSError(-error, "netlink")
    return answer[20:]
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
netlink.bind((0, 0))
CTRL, GETFAMILY, FAMILY_ID, FAMILY_NAME = 16, 3, 1, 2
answer = ask(CTRL, 0, GETFAMILY, attribute(FAMILY_NAME, b"vdpa\0"))
while answer:
    length, kind = struct.unpack_from("HH", answer)
    if kind == FAMILY_ID:
        family = struct.unpack_from("H", answer, 4)[0]
    answer = answer[(length + 3) & ~3:]
DEV_NEW, MGMTDEV_DEV_NAME, DEV_NAME = 3, 2, 4
ask(family, 4, DEV_NEW, attribute(MGMTDEV_DEV_NAME, b"vduse\0") + attribute(DEV_NAME, b"vduse0\0"))
"#;

pub fn groups() -> Vec<Group> {
    let group = Group::new("vdpa")
        .guest(|_| Ok(Vm::builder().vcpus(2)))
        .shared("verified I/O on a device in user space", verified);
    vec![group]
}

fn verified(lab: &Lab, vm: &Vm) -> Result<()> {
    vm.sh("modprobe vdpa && modprobe vduse && modprobe virtio_vdpa")?;
    let daemon = vm.spawn(
        secs(600),
        "truncate -s 64M /tmp/disk
         exec qemu-storage-daemon --blockdev driver=file,node-name=disk,filename=/tmp/disk \
             --export vduse-blk,id=export,name=vduse0,node-name=disk,writable=on,num-queues=2 \
             --pidfile /tmp/daemon",
    )?;
    vm.sh(&format!(
        "for try in $(seq 100); do test -e /dev/vduse/vduse0 && break; sleep 0.1; done
         cat >/tmp/add.py <<'END'\n{ADD}\nEND
         python3 /tmp/add.py"
    ))
    .context("the guest has got no vDPA device")?;
    let name = vm.sh("for try in $(seq 100); do
             for disk in /sys/bus/vdpa/devices/vduse0/virtio*/block/*; do
                 test -b /dev/${disk##*/} && echo ${disk##*/} && exit 0
             done; sleep 0.1
         done; exit 1")?;
    let name = name.trim();
    for round in 0..2 {
        fio::run(
            vm,
            secs(120),
            &format!(
                "--name=j --filename=/dev/{name} --rw=randwrite --bsrange=4k-256k --size=8m \
                 --iodepth=32 --ioengine=io_uring --verify=crc32c --fsync=16"
            ),
        )?;
        let inflight = vm.sh(&format!("cat /sys/block/{name}/inflight"))?;
        ensure!(
            inflight.split_whitespace().all(|count| count == "0"),
            "requests are in flight in round {round}: {inflight}"
        );
        let driver = format!("/sys/bus/virtio/drivers/{}", lab.driver());
        vm.sh(&format!(
            "device=$(basename /sys/bus/vdpa/devices/vduse0/virtio*)
             echo $device >{driver}/unbind && echo $device >{driver}/bind
             for try in $(seq 100); do test -b /dev/{name} && exit 0; sleep 0.1; done; exit 1"
        ))?;
    }
    vm.unload(lab.driver())?;
    vm.sh("kill $(cat /tmp/daemon)")?;
    daemon.wait()?;
    Ok(())
}
