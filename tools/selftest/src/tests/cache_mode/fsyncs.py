# SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
"""Writes blocks and calls fsync, and checks later what must be there:

fsyncs.py DISK write N | check N | fsync     one block, all bytes N
fsyncs.py DISK load WORKERS SECONDS          prints what each fsync has promised
fsyncs.py DISK kept FILE                     demands what was promised
"""

import json
import mmap
import os
import sys
import threading
import time

BLOCK = 4096
# Blocks of a worker.
BLOCKS = 64


def write(disk, page, block, number):
    page[:8] = number.to_bytes(8, "little")
    os.pwritev(disk, [page], block * BLOCK)


def read(disk, page, block):
    os.preadv(disk, [page], block * BLOCK)
    return int.from_bytes(page[:8], "little")


def work(disk, worker, end, promised):
    page = mmap.mmap(-1, BLOCK)
    number = time.monotonic_ns()
    while time.monotonic() < end:
        number += 1
        block = worker * BLOCKS + number % BLOCKS
        write(disk, page, block, number)
        os.fsync(disk)
        promised[block] = number


def main():
    disk = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
    page = mmap.mmap(-1, BLOCK)
    match sys.argv[2:]:
        case ["write", number]:
            write(disk, page, 0, int(number))
        case ["check", number]:
            found = read(disk, page, 0)
            if found != int(number):
                sys.exit(f"the block holds {found} instead of {number}")
        case ["fsync"]:
            os.fsync(disk)
        case ["load", workers, seconds]:
            promised = {}
            end = time.monotonic() + float(seconds)
            threads = [threading.Thread(target=work, args=(disk, worker, end, promised))
                       for worker in range(int(workers))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            json.dump(promised, sys.stdout)
        case ["kept", file]:
            with open(file, encoding="ascii") as promises:
                promised = json.load(promises)
            if len(promised) < BLOCKS:
                sys.exit(f"only {len(promised)} blocks were promised")
            for block, number in promised.items():
                found = read(disk, page, int(block))
                # A write that was not promised may have come later.
                if found < number:
                    sys.exit(f"block {block} holds {found} instead of {number} or later")


main()
