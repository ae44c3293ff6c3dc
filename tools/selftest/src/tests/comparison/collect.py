# SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
"""Prints, as JSON, what user space sees of disks: collect.py NAME=DISK...

What depends on the time, on the order in which disks were found or on a free number is left out,
or replaced by what it stands for.
"""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import re
import subprocess
import sys

# Values that change by themselves, or count what has happened.
VOLATILE = re.compile(
    r"^(diskseq|inflight|stat|m(ax|in)_bytes|trace/.*|power/.*)$")

IOCTLS = {
    "BLKROGET": 0x125E, "BLKGETSIZE": 0x1260, "BLKRAGET": 0x1263, "BLKFRAGET": 0x1265,
    "BLKSECTGET": 0x1267, "BLKSSZGET": 0x1268, "BLKBSZGET": 0x80081270,
    "BLKGETSIZE64": 0x80081272, "BLKIOMIN": 0x1278, "BLKIOOPT": 0x1279, "BLKALIGNOFF": 0x127A,
    "BLKPBSZGET": 0x127B, "BLKDISCARDZEROES": 0x127C, "BLKROTATIONAL": 0x127E,
    "BLKGETZONESZ": 0x80041284, "BLKGETNRZONES": 0x80041285, "HDIO_GETGEO": 0x0301,
    "HDIO_GET_IDENTITY": 0x030D, "CDROM_GET_CAPABILITY": 0x5331, "SG_IO": 0x2285,
    "SG_GET_VERSION_NUM": 0x2282, "FIBMAP": 1, "unknown": 0xDEAD,
}
BLKROSET, BLKRRPART, BLKFLSBUF, BLKRASET = 0x125D, 0x125F, 0x1261, 0x1262
BLKDISCARD, BLKSECDISCARD, BLKZEROOUT = 0x1277, 0x127D, 0x127F
BLKBSZSET = 0x40081271

BLOCKDEV = ["getro", "getdiscardzeroes", "getss", "getpbsz", "getiomin", "getioopt", "getalignoff",
            "getmaxsect", "getbsz", "getsize64", "getsz", "getra", "getfra", "report"]


def attempt(action):
    """The result of an action, or the name of its error."""
    try:
        return action()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))


def read(path):
    with open(path, "rb") as file:
        return file.read().decode("latin-1")


def write(path, text):
    with open(path, "wb", buffering=0) as file:
        file.write(text.encode())
    return "ok"


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [done.returncode, done.stdout, done.stderr]


class Disk:
    def __init__(self, name, disk):
        self.name = name
        self.disk = disk
        self.device = f"/dev/{name}"
        self.folder = f"/sys/block/{name}"
        self.virtio = os.path.basename(os.path.realpath(f"{self.folder}/device"))
        numbers = os.stat(self.device).st_rdev
        self.numbers = f"{os.major(numbers)}:{os.minor(numbers)}"
        majors = dict(re.findall(r"(\d+) (\S+)", read("/proc/devices").split("Block")[1]))
        self.major = majors[str(os.major(numbers))]
        self.found = {}

    def neutral(self, value):
        """A value without names and numbers that say nothing of the disk."""
        if isinstance(value, list):
            return [self.neutral(part) for part in value]
        if isinstance(value, str):
            value = re.sub(rf"\b{self.name}\b", "DISK", value)
            value = re.sub(rf"\b{self.virtio}\b", "VIRTIO", value)
            value = re.sub(rf"\b{self.numbers}\b", "NUMBERS", value)
            value = re.sub(r"DISKSEQ=\d+", "DISKSEQ", value)
        return value

    def note(self, key, action):
        self.found[self.neutral(key)] = self.neutral(attempt(action))

    def files(self, folder, prefix):
        for root, folders, files in os.walk(folder):
            folders.sort()
            for name in sorted(files + [name for name in folders
                                        if os.path.islink(os.path.join(root, name))]):
                path = os.path.join(root, name)
                key = os.path.relpath(path, folder)
                if VOLATILE.match(key):
                    continue
                if os.path.islink(path):
                    self.note(prefix + key, lambda: os.readlink(path))
                    continue
                mode = os.stat(path).st_mode & 0o777
                self.note(prefix + key + " mode", lambda: f"{mode:o}")
                if key == "uevent":
                    self.note(prefix + key, lambda: [
                        line for line in read(path).splitlines()
                        if not re.match("DISKSEQ|MAJOR|MINOR", line)])
                elif mode & 0o444:
                    self.note(prefix + key, lambda: read(path))

    def ioctls(self):
        with open(self.device, "rb") as file:
            for name, number in IOCTLS.items():
                def ask():
                    buffer = bytearray(64)
                    fcntl.ioctl(file, number, buffer, True)
                    return buffer.hex()
                self.note(f"ioctl {name}", ask)
        for option in BLOCKDEV:
            self.note(f"blockdev --{option}", lambda: run("blockdev", f"--{option}", self.device))

    def programs(self):
        self.note("blkid -p", lambda: run("blkid", "-p", self.device))
        self.note("blkid -i", lambda: run("blkid", "-i", "-o", "export", self.device))
        self.note("sfdisk -l", lambda: run("sfdisk", "-l", self.device))
        status, output, _ = run("lsblk", "-J", "-O", "-b", self.device)
        self.note("lsblk", lambda: status)
        for key, value in json.loads(output)["blockdevices"][0].items():
            if key not in ("disk-seq", "maj", "min"):
                self.note(f"lsblk {key}", lambda: value)

    def udev(self):
        """What udev's rules make of the disk, and the links to it; the daemon has run by now."""
        status, output, _ = run("udevadm", "info", "--query=property", self.device)
        self.note("udevadm info", lambda: status)
        for line in output.splitlines():
            key, value = line.split("=", 1)
            if key == "DEVLINKS":
                value = sorted(link for link in value.split() if "/by-diskseq/" not in link)
            if key not in ("DISKSEQ", "MINOR", "USEC_INITIALIZED"):
                self.note(f"udev {key}", lambda: value)

    def system(self):
        self.note("major number", lambda: self.major)
        self.note("minor number", lambda: "a multiple of 16" if
                  os.minor(os.stat(self.device).st_rdev) % 16 == 0 else "another")
        self.note("/proc/partitions", lambda: [
            line.split()[2:] for line in read("/proc/partitions").splitlines()
            if line.split()[3:] == [self.name]])
        self.note("interrupts", lambda: sorted(
            line.split()[-1] for line in read("/proc/interrupts").splitlines()
            if re.search(rf"\b{self.virtio}-", line)))
        self.files(f"/sys/class/bdi/{self.numbers}/", "bdi ")
        for name in ("features", "status", "modalias"):
            path = f"/sys/bus/virtio/devices/{self.virtio}/{name}"
            self.note(f"virtio {name}", lambda: read(path))
        # The first line: the driver may be loaded for the second time.
        log = [re.sub(r".*virtio_blk\w* ", "", line) for line in run("dmesg")[1].splitlines()
               if f"[{self.name}]" in line and "logical blocks" in line]
        self.note("log", lambda: log[-1:])

    def bad_requests(self):
        """What does not work, and how it does not. It comes last: some of it leaves traces."""
        size = int(read(f"{self.folder}/size")) * 512
        block = int(read(f"{self.folder}/queue/logical_block_size"))
        page = mmap.mmap(-1, 1 << 20)

        def direct(flags, action):
            def inner():
                file = os.open(self.device, flags | os.O_DIRECT)
                try:
                    return action(file)
                finally:
                    os.close(file)
            return inner

        def pread(length, offset, start=0):
            view = memoryview(page)[start:start + length]
            return direct(os.O_RDONLY, lambda file: os.preadv(file, [view], offset))

        def pwrite(length, offset, start=0, flags=0):
            view = memoryview(page)[start:start + length]
            return direct(os.O_RDWR | flags, lambda file: os.pwritev(file, [view], offset))

        for what, length, offset, start in [
                ("a block", block, 0, 0), ("half a block", block // 2, 0, 0),
                ("at half a block", block, block // 2, 0), ("odd memory", block, 0, 1),
                ("even memory", block, 0, 4), ("1 MiB", 1 << 20, 0, 0),
                ("the last block", block, size - block, 0),
                ("across the end", 2 * block, size - block, 0), ("the end", block, size, 0),
                ("far out", block, 1 << 62, 0)]:
            self.note(f"read {what}", pread(length, offset, start))
            self.note(f"write {what}", pwrite(length, offset, start))
        self.note("write with O_DSYNC", pwrite(block, 0, 0, os.O_DSYNC))

        def ranges(number, *numbers):
            argument = b"".join(value.to_bytes(8, "little") for value in numbers)

            def inner():
                with open(self.device, "r+b", buffering=0) as file:
                    fcntl.ioctl(file, number, argument)
                    return "ok"
            return inner

        for name, number in [("BLKDISCARD", BLKDISCARD), ("BLKSECDISCARD", BLKSECDISCARD),
                             ("BLKZEROOUT", BLKZEROOUT)]:
            for what, start, length in [
                    ("1 MiB", 0, 1 << 20), ("a block", block, block), ("nothing", 0, 0),
                    ("half a block", 0, block // 2), ("at 1", 1, block),
                    ("across the end", size - block, 2 * block), ("the end", size, block),
                    ("all", 0, size), ("overflow", 1 << 63, 1 << 63)]:
                self.note(f"{name} {what}", ranges(number, start, length))

        libc = ctypes.CDLL(None, use_errno=True)

        def fallocate(mode, start, length):
            def inner():
                file = os.open(self.device, os.O_RDWR)
                try:
                    start_, length_ = ctypes.c_int64(start), ctypes.c_int64(length)
                    if libc.fallocate(file, mode, start_, length_) != 0:
                        raise OSError(ctypes.get_errno(), "fallocate")
                    return "ok"
                finally:
                    os.close(file)
            return inner

        for what, mode in [("plain", 0), ("punch", 3), ("zero", 0x10), ("zero, keep size", 0x11),
                           ("punch, no hide", 7), ("collapse", 8), ("write zeroes", 0x80)]:
            self.note(f"fallocate {what}", fallocate(mode, 0, 1 << 20))
            self.note(f"fallocate {what}, half a block", fallocate(mode, 0, block // 2))

        def set_number(number, value):
            def inner():
                with open(self.device, "rb") as file:
                    fcntl.ioctl(file, number, value)
                    return "ok"
            return inner

        for value in [0, 256, 512, 1000, 4096, 1 << 20]:
            argument = value.to_bytes(8, "little")
            self.note(f"BLKBSZSET {value}", set_number(BLKBSZSET, argument))
        self.note("BLKRRPART", set_number(BLKRRPART, 0))
        self.note("BLKFLSBUF", set_number(BLKFLSBUF, 0))
        self.note("BLKROSET", set_number(BLKROSET, (1).to_bytes(4, "little")))
        self.note("write after BLKROSET", pwrite(block, 0))
        self.note("BLKROSET off", set_number(BLKROSET, (0).to_bytes(4, "little")))
        self.note("write after BLKROSET off", pwrite(block, 0))
        self.note("fsync", direct(os.O_RDWR, os.fsync))

        for file, texts in [
                ("serial", ["x"]), ("cache_type", ["", "nonsense", "write", "write through",
                                                   "write back\n"]),
                ("size", ["1"]), ("ro", ["1"]), ("queue/write_cache", ["nonsense", "write through",
                                                                       "write back"]),
                ("queue/nr_requests", ["0", "1000000", "16"]), ("queue/scheduler", ["nonsense"]),
                ("queue/io_timeout", ["0", "31000"]), ("queue/max_sectors_kb", ["0", "1", "4096"]),
                ("queue/rotational", ["0", "1"]), ("queue/wbt_lat_usec", ["75000"]),
                ("queue/discard_max_bytes", ["1", "1048576"])]:
            for text in texts:
                path = f"{self.folder}/{file}"
                self.note(f"write {text!r} to {file}", lambda: write(path, text))
                if "nonsense" not in text:
                    self.note(f"{file} after {text!r}", lambda: read(path))
                    self.note(f"write_cache after {text!r} to {file}",
                              lambda: read(f"{self.folder}/queue/write_cache"))
        # Not every device forgets this with its driver.
        attempt(lambda: write(f"{self.folder}/cache_type", self.found["cache_type"]))

    def collect(self):
        self.files(self.folder, "")
        self.ioctls()
        self.programs()
        self.udev()
        self.system()
        self.bad_requests()
        return self.found


def main():
    result = {}
    for argument in sys.argv[1:]:
        name, disk = argument.split("=")
        result[disk] = Disk(name, disk).collect()
    json.dump(result, sys.stdout)


main()
