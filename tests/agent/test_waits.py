"""Symbols of real kernels, by the family that they belong to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.agent.waits import BEGINNINGS, FAMILIES, family

WCHAN = [
    # 4.18 (RHEL 8)
    ("io_schedule", "block-read"),
    ("wait_on_page_bit", "block-read"),
    ("wait_on_page_bit_common", "block-read"),
    ("__lock_page_killable", "block-read"),
    ("do_blockdev_direct_IO", "block-read"),
    ("blk_mq_get_tag", "block-read"),
    ("wait_on_page_writeback", "block-write"),
    ("balance_dirty_pages_ratelimited", "block-write"),
    ("balance_dirty_pages.isra.29", "block-write"),
    ("jbd2_log_wait_commit", "block-write"),
    ("wait_transaction_locked", "block-write"),
    ("futex_wait_queue_me", "futex"),
    ("pipe_wait", "pipe"),
    ("ep_poll", "poll"),
    ("poll_schedule_timeout.constprop.4", "poll"),
    ("do_select", "poll"),
    ("inet_csk_accept", "socket"),
    ("sk_wait_data", "socket"),
    ("unix_stream_read_generic", "socket"),
    ("__skb_wait_for_more_packets", "socket"),
    ("hrtimer_nanosleep", "sleep"),
    ("rpc_wait_bit_killable", "netfs"),
    ("nfs_wait_bit_killable", "netfs"),
    ("request_wait_answer", "fuse"),
    ("congestion_wait", "memory"),
    ("do_wait", "process"),
    # 5.4 to 5.15
    ("futex_wait_queue_me", "futex"),
    ("pipe_read", "pipe"),
    ("put_and_wait_on_page_locked", "block-read"),
    ("__iomap_dio_rw", "block-read"),
    ("xlog_wait_on_iclog", "block-write"),
    ("wait_for_stable_page", "block-write"),
    ("reclaim_throttle", "memory"),
    ("mem_cgroup_handle_over_high", "memory"),
    ("do_epoll_wait", "poll"),
    ("io_cqring_wait", "poll"),
    # 6.1 to 6.18
    ("folio_wait_bit_common", "block-read"),
    ("folio_wait_bit", "block-read"),
    ("folio_wait_writeback", "block-write"),
    ("futex_wait_queue", "futex"),
    ("futex_do_wait", "futex"),
    ("futex_wait_multiple", "futex"),
    ("anon_pipe_read", "pipe"),
    ("fifo_pipe_read", "pipe"),
    ("wait_woken", "socket"),
    ("do_sys_poll", "poll"),
    ("btrfs_sync_log", "block-write"),
    ("blkdev_issue_flush", "block-write"),
    ("read_events", "block-read"),
    ("__do_sys_pause", "process"),
    ("do_freezer_trap", "stopped"),
    # modules
    ("ptlrpc_set_wait", "netfs"),
    ("ldlm_completion_ast", "netfs"),
    ("cl_sync_io_wait", "netfs"),
    ("osc_extent_wait", "netfs"),
    ("ceph_mdsc_wait_request", "netfs"),
    ("cxiWaitEventWait", "netfs"),
    ("netfs_wait_for_read", "netfs"),
    ("p9_client_rpc", "netfs"),
    ("fuse_dev_do_read", "fuse"),
    ("nvidia_unlocked_ioctl", "gpu"),
    ("_nv042379rm", "gpu"),
    ("uvm_va_block_migrate_locked", "gpu"),
    ("nvme_submit_user_cmd", "block-read"),
    ("ib_uverbs_event_read", "socket"),
    # unknown, and what user-mode Linux says of every sleeper
    ("um_set_signals", "unknown"),
    ("percpu_ref_put", "unknown"),
    ("n_tty_read", "unknown"),
    ("schedule_timeout", "unknown"),
    ("0", "unknown"),
    ("", "unknown"),
]


@pytest.mark.parametrize(("wchan", "expected"), WCHAN)
def test_wchan(wchan: str, expected: str) -> None:
    for state in "SD":
        assert family(state, None, wchan.encode()) == expected


def stack(*symbols: str) -> bytes:
    return "".join(f"[<0>] {symbol}+0x4f/0x1a0\n" for symbol in symbols).encode()


STACKS = [
    ("folio_wait_bit_common filemap_get_pages filemap_read ext4_file_read_iter vfs_read", "block-read"),
    ("folio_wait_bit_common filemap_get_pages filemap_read nfs_file_read vfs_read", "netfs"),
    ("folio_wait_bit_common filemap_fault __xfs_filemap_fault do_fault", "block-read"),
    ("folio_wait_bit_common filemap_read fuse_file_read_iter vfs_read", "fuse"),
    ("folio_wait_bit_common __folio_lock_or_retry do_swap_page handle_mm_fault", "memory"),
    ("wait_on_page_bit __filemap_fdatawait_range file_write_and_wait_range ext4_sync_file", "block-write"),
    ("io_schedule folio_wait_bit_common ext4_da_write_begin generic_perform_write", "block-write"),
    ("jbd2_log_wait_commit ext4_evict_inode prune_icache_sb shrink_slab do_try_to_free_pages", "memory"),
    ("rpc_wait_bit_killable __wait_on_bit nfs4_call_sync_sequence nfs4_proc_getattr", "netfs"),
    ("schedule schedule_timeout wait_woken sk_wait_data tcp_recvmsg_locked", "socket"),
    ("wait_woken n_tty_read tty_read vfs_read", "unknown"),
    ("wait_woken n_tty_write file_tty_write vfs_write ksys_write", "unknown"),
    ("folio_wait_bit_common new_fs_write_iter vfs_write ksys_write", "block-write"),
    ("schedule_hrtimeout_range_clock poll_schedule_timeout do_sys_poll", "poll"),
    ("__schedule schedule futex_do_wait __futex_wait futex_wait do_futex", "futex"),
    ("rwsem_down_write_slowpath ext4_file_write_iter vfs_write", "block-write"),
    ("rwsem_down_read_slowpath do_user_addr_fault exc_page_fault", "unknown"),
    ("hrtimer_nanosleep common_nsleep __x64_sys_clock_nanosleep", "sleep"),
]  # fmt: skip


@pytest.mark.parametrize(("symbols", "expected"), STACKS)
def test_stack(symbols: str, expected: str) -> None:
    wchan = symbols.split(maxsplit=1)[0] if "wait_woken" in symbols else "um_set_signals"
    assert family("D", stack(*symbols.split()), wchan.encode()) == expected


def test_stack_of_a_kernel_with_addresses() -> None:
    text = b"[<ffffffff812a1b2c>] pipe_wait+0x6f/0xc0\n[<ffffffffffffffff>] 0xffffffffffffffff\n"
    assert family("S", text, None) == "pipe"


def test_an_implausible_stack_leaves_it_to_wchan() -> None:
    for text in (b"", b"[<0>] 0xffffffffffffffff\n", stack("some_new_wait", "do_syscall_64")):
        assert family("S", text, b"pipe_read") == "pipe"


@pytest.mark.parametrize(
    ("state", "expected"),
    [("R", "run"), ("T", "stopped"), ("t", "stopped"), ("Z", "process"), ("D", "unknown"), ("S", "unknown"), ("?", "unknown")],
)  # fmt: skip
def test_state_alone(state: str, expected: str) -> None:
    assert family(state, None, None) == expected


def test_beginnings_name_families_and_no_symbol_twice() -> None:
    words = [word for text in BEGINNINGS.values() for word in text.split()]
    assert set(BEGINNINGS) <= set(FAMILIES)
    assert len(words) == len(set(words))
    assert not [word for word in words if word.startswith("_")]


@given(st.text(max_size=3), st.none() | st.binary(), st.none() | st.binary())
def test_any_text_gives_a_family(state: str, text: bytes | None, wchan: bytes | None) -> None:
    assert family(state, text, wchan) in FAMILIES
