"""Families of waits: what a thread is blocked on, from stack, wchan or state.

Symbols are matched by family over kernels 4.18 to 6.18 and later; an unknown symbol is
`unknown`, never "not storage". Poll and epoll are undetermined until sockets say more.

The stack (root only) comes first: its deeper frames name the file system behind a page that is
waited for, and say whether it is a read or a write. wchan names one function, the first outside
the scheduler; on some kernels (user-mode Linux) it is the same for every sleeper, which then is
unknown.
"""

import re
from typing import Dict, List, Optional

FAMILIES = {
    "run": "on a CPU",
    "ready": "could run, waits for a CPU",
    "block-read": "reads from a block device or the page cache",
    "block-write": "writes, syncs or waits for the journal",
    "netfs": "in a network file system (NFS, Lustre, Ceph, GPFS)",
    "fuse": "in a FUSE file system",
    "memory": "in reclaim, compaction or swap",
    "socket": "in a socket call",
    "poll": "in poll, select or epoll: undetermined",
    "futex": "on a futex (queue, lock, condition)",
    "pipe": "on a pipe",
    "sleep": "in a timer",
    "gpu": "in the GPU driver",
    "process": "waits for a child",
    "stopped": "stopped by a signal, a debugger or the freezer",
    "unknown": "blocked on what has no known name",
}
PLAIN = ("futex", "poll", "socket", "pipe", "sleep")
"""Families that no deeper frame makes another one."""
STORAGE = ("block-read", "block-write", "netfs", "fuse")

BEGINNINGS = {
    "block-read": """folio_wait_bit folio_lock folio_put_wait_locked wait_on_page_bit wait_on_page_locked
        put_and_wait_on_page_locked lock_page filemap_ page_cache_ do_generic_file_read generic_file_read
        generic_file_buffered_read read_pages force_page_cache iomap_ blkdev_ bdev_ do_blockdev_direct
        dio_ submit_bio_wait blk_ bio_ rq_qos_wait get_request wait_on_buffer bh_read bread ll_rw_block
        io_schedule bit_wait_io read_events do_io_getevents ext4_ ext2_ xfs_ btrfs_ f2fs_ zfs_ zio_ dmu_
        arc_read cv_wait_ cv_timedwait_ squashfs_ erofs_ isofs_ ocfs2_ gfs2_ dm_ md_ raid scsi_ nvme_ loop_ nbd_ rbd_ bcache_
        cached_dev_ mpage_ do_read_cache read_cache_folio""",
    "block-write": """balance_dirty_pages jbd2_ wait_transaction_locked wait_transaction_switching
        start_this_handle add_transaction_credits xlog_ xfs_log_ xfs_file_fsync xfs_file_write
        xfs_file_buffered_write xfs_file_dio_write xfs_buf_delwri xfs_ail_push xfs_trans_reserve
        folio_wait_writeback folio_wait_stable wait_on_page_writeback wait_for_stable_page
        filemap_fdatawait filemap_fdatawrite filemap_write_and_wait file_write_and_wait generic_perform_write
        generic_file_write vfs_fsync do_fsync do_sync_work sync_inodes_sb ksys_sync
        sync_filesystem iterate_supers wb_wait_for_completion wbt_ writeback_ write_cache_pages do_writepages
        blkdev_issue_flush blkdev_fsync blkdev_write iomap_file_buffered_write iomap_write ext4_sync_file
        ext4_fc_commit ext4_file_write ext4_buffered_write ext4_dio_write ext4_da_write ext4_write_begin
        ext4_journal ext4_writepages ext4_do_writepages btrfs_sync_ btrfs_wait_ordered btrfs_commit_
        btrfs_file_write btrfs_do_write btrfs_buffered_write btrfs_log_ wait_current_trans wait_log_commit
        f2fs_issue_flush f2fs_sync_file f2fs_file_write f2fs_do_sync txg_wait zil_ zfs_write zfs_fsync""",
    "netfs": """rpc_ nfs_ nfs2_ nfs3_ nfs4_ nfs41_ nfs42_ pnfs_ ff_layout_ nlmclnt_ xprt_ call_reserve
        ptlrpc_ ldlm_ cl_io_ cl_sync_ cl_lock_ osc_ ll_ lov_ lmv_ mdc_ obd_ vvp_ lnet_ ceph_ ceph_mdsc
        netfs_ cifs_ smb2_ SMB2_ smb3_ compound_send_recv wait_for_response afs_ p9_ v9fs_ orangefs_ cxi
        gpfs kxWait mmfs FhgfsOps beegfs weka""",
    "fuse": "request_wait_answer fuse_ virtio_fs_ cuse_",
    "memory": """shrink_ try_to_free_ do_try_to_free_ alloc_pages_direct_ alloc_pages_slowpath compact_
        try_to_compact isolate_migratepages too_many_isolated throttle_direct_reclaim reclaim_throttle
        congestion_wait wait_iff_congested mem_cgroup_ try_charge do_swap_page swap_read swapin_
        read_swap_cache swap_cluster_readahead swap_vma_readahead migration_entry_wait out_of_memory
        handle_userfault balance_pgdat node_reclaim""",
    "socket": """sk_wait_ sk_stream_wait sock_ tcp_ udp_ udpv6_ inet_ inet6_ unix_ skb_wait skb_recv
        vsock_ tls_ mptcp_ netlink_ packet_recv raw_recvmsg sctp_ smc_ rds_ ib_uverbs_ ucma_ rdma_
        sys_recv sys_accept sys_connect""",
    "poll": """poll_schedule_timeout do_poll do_sys_poll do_select core_sys_select do_pselect ep_poll
        do_epoll_ eventfd_ signalfd_ timerfd_ inotify_ fanotify_ io_cqring_wait io_uring_""",
    "futex": "futex_ do_futex sys_futex",
    "pipe": "pipe_ anon_pipe_ fifo_ wait_for_partner ipipe_ opipe_ splice_from_pipe",
    "sleep": "hrtimer_nanosleep do_nanosleep common_nsleep clock_nanosleep sys_nanosleep sys_clock_nanosleep msleep",
    "gpu": """nvidia nv_ nv0 nvkms os_acquire_ os_delay uvm_ rm_ioctl amdgpu_ kfd_ dma_fence_ dma_resv_
        drm_ nouveau_ xe_ i915_""",
    "process": """do_wait kernel_wait wait_task_ do_sigtimedwait sigsuspend sys_pause do_sys_pause
        wait_for_vfork_done do_exit do_group_exit coredump_ do_coredump exit_mm""",
    "stopped": "do_signal_stop ptrace_stop ptrace_check refrigerator do_freezer_trap",
}  # fmt: skip
"""Beginnings of symbols, leading underscores cut; the longest that fits decides."""

ALONE = {"wait_woken": "socket", "wait_for_completion_io": "block-read"}
"""What wchan means without a stack: the usual caller of a function that has several."""
REFINED = {"block-read": ("memory", "netfs", "fuse", "block-write"), "block-write": ("memory", "netfs", "fuse")}  # fmt: skip
"""Families whose deeper frames decide between those, in this order."""
WRITE_CALLS = ("vfs_write", "vfs_writev", "ksys_write", "do_iter_write")
"""They make a page that is waited for part of a write; terminals and drivers have them too."""
OF_STATE = {"R": "run", "T": "stopped", "t": "stopped", "Z": "process", "X": "process"}
FRAME = re.compile(rb"\] _*([A-Za-z0-9][A-Za-z0-9_.]*)\+0x")
MAX_FRAMES = 48
MAX_KNOWN = 2048
MAX_STACKS = 128

_families: Dict[str, str] = {}
_known: Dict[str, str] = {}
_stacks: Dict[bytes, str] = {}
_plain: Dict[bytes, str] = {}


def family(state: str, stack: Optional[bytes], wchan: Optional[bytes]) -> str:
    """Say what a thread waits in.

    Args:
        state: its letter in /proc/PID/stat.
        stack: its /proc/PID/stack; None where that may not be read.
        wchan: its /proc/PID/wchan; None where that may not be read.

    Returns:
        A name in FAMILIES; `run` for any state R.
    """
    if state in OF_STATE:
        return OF_STATE[state]
    found = _of_stack(stack) if stack else "unknown"
    if found == "unknown" and wchan:
        name = _name(wchan)
        found = symbol_family(name)
        if not stack:
            found = ALONE.get(name, found)
    return found


def plain(wchan: Optional[bytes]) -> Optional[str]:
    """Return the family of a sleeper whose wchan alone tells it, None where more must be read.

    io_uring sleeps in io_schedule(), which a stack shows and wchan does not.
    """
    if not wchan or wchan == b"0":
        return None
    found = _plain.get(wchan)
    if found is None:
        if len(_plain) >= MAX_KNOWN:
            _plain.clear()
        name = _name(wchan)
        told = symbol_family(name)
        is_plain = told in PLAIN and not name.startswith("io_")
        found = _plain[wchan] = told if is_plain else ""
    return found or None


def symbol_family(name: str) -> str:
    """Return the family of one kernel symbol without leading underscores, or `unknown`."""
    found = _known.get(name)
    if found is None:
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        found = _known[name] = _longest(name)
    return found


def _name(wchan: bytes) -> str:
    return wchan[:128].decode("ascii", "replace").strip().lstrip("_")


def _longest(name: str) -> str:
    if not _families:
        for each, beginnings in BEGINNINGS.items():
            _families.update(dict.fromkeys(beginnings.split(), each))
    for length in range(min(len(name), 40), 1, -1):
        if name[:length] in _families:
            return _families[name[:length]]
    return "unknown"


def _of_stack(stack: bytes) -> str:
    """Return the family of a stack; threads wait in few places, so most were seen before."""
    found = _stacks.get(stack)
    if found is None:
        if len(_stacks) >= MAX_STACKS:
            _stacks.clear()
        frames = [f.decode("ascii") for f in FRAME.findall(stack)[:MAX_FRAMES]]
        found = _stacks[stack] = _of_frames(frames)
    return found


def _of_frames(frames: List[str]) -> str:
    """Return the family of the topmost frame that has one, refined by those below it."""
    families = [f for f in map(symbol_family, frames) if f != "unknown"]
    if not families:
        return "unknown"
    for better in REFINED.get(families[0], ()):
        if better in families:
            return better
    if families[0] == "block-read" and any(frame in WRITE_CALLS for frame in frames):
        return "block-write"
    return families[0]
