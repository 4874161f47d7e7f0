"""Storage: a folder of the errand's own on a path, and what is written and read in it.

Everything lies in a folder that the watcher removes. A mount whose server is dead blocks a thread
of this process for ever, and nothing else: the viewer stops waiting.
"""

import ctypes
import os
import shutil
import threading
import time
import zlib
from typing import Any, Dict, List

from gpuwatch.errand import watcher

BLOCK = 4 << 20
SPARE = 0.05
"""Share of a file system that stays free."""


def folder(path: str, need_bytes: int) -> Dict[str, Any]:
    """Make a folder of the errand's own below a path, if there is room.

    Returns:
        `folder`, `free` bytes, `type` of file system and `source`, as /proc/self/mountinfo says.

    Raises:
        OSError: as the kernel says; ENOSPC where less would stay free than should.
    """
    room = os.statvfs(path)
    free, total = room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize
    if free - need_bytes < SPARE * total:
        raise OSError(
            28, "only %.1f GB are free, and %.1f would be written" % (free / 1e9, need_bytes / 1e9)
        )
    mine = watcher.owns(path)
    os.makedirs(mine, 0o700, exist_ok=True)
    kind, source, device = _mount(mine)
    return {
        "folder": mine,
        "free": free,
        "type": kind,
        "source": source,
        "rotational": _turns(device),
    }


def remove(folder: str) -> Dict[str, Any]:
    """Remove what was written in a folder of the errand's own."""
    if os.path.basename(folder).startswith(watcher.PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
    return {}


def tree(folder: str, count: int, size: int) -> Dict[str, Any]:
    """Write `count` files of `size` bytes, a hundred a folder, and let go of their pages."""
    data = os.urandom(min(size, BLOCK))
    for number in range(count):
        place = os.path.join(folder, "tree", "%04d" % (number // 100))
        if number % 100 == 0:
            os.makedirs(place, exist_ok=True)
        descriptor = os.open(
            os.path.join(place, "%08d" % number), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600
        )
        try:
            os.write(descriptor, data[:size])
            if number % 100 == 99:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    _settle(folder)
    return {"count": count}


def visit(folder: str, workers: int, seed: int, limit_s: float, cold: bool) -> Dict[str, Any]:
    """Read all files of the tree once, in random order, by so many threads.

    Args:
        folder: of the errand's own.
        workers: threads.
        seed: of the order.
        limit_s: after which the rest is left.
        cold: let go of each file's pages before it is read, so that the store is asked.

    Returns:
        `files` read, `bytes`, `took_s`, and `p50_ms`, `p99_ms` of open, read and close.
    """
    paths = [
        os.path.join(top, name)
        for top, _, names in os.walk(os.path.join(folder, "tree"))
        for name in names
    ]
    paths.sort(key=lambda path: zlib.crc32(b"%d %s" % (seed, os.fsencode(path))))
    if cold:
        for path in paths:
            _forget(path)
    took: List[float] = []
    sizes: List[int] = []
    until = time.monotonic() + limit_s

    def work(part: List[str]) -> None:
        for path in part:
            began = time.perf_counter()
            if time.monotonic() > until:
                return
            with open(path, "rb", buffering=0) as file:
                sizes.append(len(file.readall()))
            took.append(time.perf_counter() - began)

    began = time.monotonic()
    threads = [threading.Thread(target=work, args=(paths[i::workers],)) for i in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s = time.monotonic() - began
    took.sort()
    return {
        "files": len(took), "bytes": sum(sizes), "took_s": took_s,
        "p50_ms": _quantile(took, 0.5), "p99_ms": _quantile(took, 0.99),
    }  # fmt: skip


def write(folder: str, size: int, limit_s: float) -> Dict[str, Any]:
    """Write one file of `size` bytes as a checkpoint is, and make it safe; less if time is up.

    Returns:
        `bytes`, `took_s` with fsync, `fsync_s` of it.
    """
    block = os.urandom(BLOCK)
    descriptor = os.open(
        os.path.join(folder, "checkpoint"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600
    )
    began = time.monotonic()
    written = 0
    try:
        while written < size and time.monotonic() - began < limit_s:
            written += os.write(descriptor, block[: size - written])
        filled = time.monotonic()
        os.fsync(descriptor)
        ended = time.monotonic()
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    return {"bytes": written, "took_s": ended - began, "fsync_s": ended - filled}


def scan(folder: str, limit_s: float) -> Dict[str, Any]:
    """Read back the file that `write` wrote, from its beginning, past the page cache if it lets go."""
    path = os.path.join(folder, "checkpoint")
    _forget(path)
    began = time.monotonic()
    size = 0
    with open(path, "rb", buffering=0) as file:
        while time.monotonic() - began < limit_s:
            data = file.read(BLOCK)
            if not data:
                break
            size += len(data)
    return {"bytes": size, "took_s": time.monotonic() - began}


def _forget(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _settle(folder: str) -> None:
    """Have written what this file system holds, and no other: one that hangs must not hold us up."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        ctypes.CDLL(None).syncfs(descriptor)
    finally:
        os.close(descriptor)


def _quantile(values: List[float], share: float) -> Any:
    return values[min(len(values) - 1, int(share * len(values)))] * 1e3 if values else None


def _mount(path: str) -> Any:
    """Return type, source and device number of the mount that a path lies on."""
    device = os.stat(path).st_dev
    number = "%d:%d" % (os.major(device), os.minor(device))
    found = "unknown", "", number
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            fields, _, rest = line.partition(" - ")
            words = rest.split()
            if fields.split()[2] == number and len(words) > 1:
                found = words[0], words[1], number
    return found


def _turns(number: str) -> Any:
    """Tell whether a block device turns: True, False, None where there is none (proc(5), sysfs)."""
    for place in ("/sys/dev/block/%s/queue/rotational", "/sys/dev/block/%s/../queue/rotational"):
        try:
            with open(place % number) as file:
                return file.read().strip() == "1"
        except OSError:
            continue
    return None
