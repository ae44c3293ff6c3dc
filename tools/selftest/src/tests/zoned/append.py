# SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
#
# Appends to a zone of /dev/nvme*n1 by several threads: NVMe is the only interface by which user
# space can append. Each block holds its number and is read back from where the answer says that
# it went. Arguments: namespace, disk, first sector of the zone, blocks, threads.

import ctypes
import fcntl
import mmap
import os
import sys
import threading

NVME_IOCTL_IO64_CMD = 0xC0504E48
ZONE_APPEND = 0x7D
BLOCK = 4096


class Command(ctypes.Structure):
    """struct nvme_passthru_cmd64"""

    _fields_ = [
        ("opcode", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("rsvd1", ctypes.c_uint16),
        ("nsid", ctypes.c_uint32),
        ("cdw2", ctypes.c_uint32),
        ("cdw3", ctypes.c_uint32),
        ("metadata", ctypes.c_uint64),
        ("addr", ctypes.c_uint64),
        ("metadata_len", ctypes.c_uint32),
        ("data_len", ctypes.c_uint32),
        ("cdw10", ctypes.c_uint32),
        ("cdw11", ctypes.c_uint32),
        ("cdw12", ctypes.c_uint32),
        ("cdw13", ctypes.c_uint32),
        ("cdw14", ctypes.c_uint32),
        ("cdw15", ctypes.c_uint32),
        ("timeout_ms", ctypes.c_uint32),
        ("rsvd2", ctypes.c_uint32),
        ("result", ctypes.c_uint64),
    ]


def append(namespace, sector, content):
    """Returns the sector at which the content went."""
    data = mmap.mmap(-1, BLOCK)
    data.write(content)
    buffer = (ctypes.c_char * BLOCK).from_buffer(data)
    command = Command(
        opcode=ZONE_APPEND,
        nsid=1,
        addr=ctypes.addressof(buffer),
        data_len=BLOCK,
        cdw10=sector & 0xFFFFFFFF,
        cdw11=sector >> 32,
        cdw12=BLOCK // 512 - 1,
    )
    status = fcntl.ioctl(namespace, NVME_IOCTL_IO64_CMD, command)
    if status != 0:
        raise OSError(f"the append ended with the NVMe status {status:#x}")
    return command.result


def content(number):
    return number.to_bytes(8, "little") * (BLOCK // 8)


def main():
    path, disk = sys.argv[1:3]
    zone, blocks, threads = (int(word) for word in sys.argv[3:6])
    namespace = os.open(path, os.O_RDWR)
    places = {}
    failures = []

    def work(first):
        try:
            for number in range(first, blocks, threads):
                places[number] = append(namespace, zone, content(number))
        except Exception as failure:
            failures.append(failure)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        sys.exit(str(failures[0]))
    right = [zone + n * (BLOCK // 512) for n in range(blocks)]
    if sorted(places.values()) != right:
        sys.exit(f"the data went to {sorted(places.values())}")
    reader = os.open(disk, os.O_RDONLY | os.O_DIRECT)
    page = mmap.mmap(-1, BLOCK)
    for number, place in places.items():
        os.preadv(reader, [page], place * 512)
        if page[:] != content(number):
            sys.exit(f"block {number} is not at sector {place}")
    print(sum(place != right[number] for number, place in places.items()))


main()
