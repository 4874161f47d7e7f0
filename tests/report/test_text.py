"""The report's last words: what to do, once a cause, most time first."""

from datetime import UTC, datetime, timedelta

from gpuwatch.model.verdict import Culprit, Finding, Recurring, State
from gpuwatch.report.text import text
from gpuwatch.report.types import Ledger, Report, Stretch

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def stretch(
    start: int,
    end: int,
    state: State,
    cause: str | None = None,
    *,
    culprits: tuple[Culprit, ...] = (),
    support: tuple[Finding, ...] = (),
    suspected: bool = True,
) -> Stretch:
    begin = BEGIN + timedelta(seconds=start)
    return Stretch(
        scope="job", node=None, rank=None, group=None, begin=begin, end=BEGIN + timedelta(seconds=end), state=state,
        cause=cause, culprits=culprits, waiting=(), suspected_at=begin if suspected else None, confirmed_at=None,
        confidence=0.9, support=support, against=(), missing=(), candidates=(),
    )  # fmt: skip


def ending(*rows: Stretch, recurring: tuple[Recurring, ...] = ()) -> list[str]:
    """Lines of the report from `What to do` on."""
    report = Report(
        format=1, job="llama", begin=BEGIN, end=rows[-1].end, interval_s=1.0, verdicts=rows, recurring=recurring,
        share={}, ledger=Ledger(gpu_hours=0.0, by={}, unseen=0.0, amount=None, currency=None), slowdown=None,
        events=(), gaps=(), thresholds={}, changes=None,
    )  # fmt: skip
    lines = text(report, UTC).splitlines()
    return lines[lines.index("What to do") :] if "What to do" in lines else []


READS = (Finding("thread_wait.loader.netfs", 81.0, "%", 30.0, "loader in netfs 81 %, over 30 %"),)
LINK = (Finding("nic.eth0.carrier_changes", 3.0, "", 1.0, "link changes of eth0 3, over 1"),)
GPU03 = (Culprit("node", "gpu03", ("gpu03",)),)


def test_each_cause_is_told_once_with_the_commands_of_its_longest_stretch() -> None:
    again = Recurring("node", "gpu01", "STORAGE", "checkpoint", 11, 9.1, 302.0, 0.03)
    assert ending(
        stretch(0, 60, "COMPUTE"),
        stretch(60, 100, "NETWORK", "link", culprits=GPU03, support=LINK),
        stretch(100, 300, "STORAGE", "read", culprits=GPU03, support=READS),
        stretch(300, 320, "STORAGE", "read"),
        recurring=(again,),
    ) == [
        "What to do",
        "STORAGE/read on gpu03",
        "  reads       nfsiostat 1 5 MOUNT",
        "              NFS: avg RTT is server and wire; avg exe beyond it is the queue on this client",
        "  reads       grep -H . /sys/fs/fuse/connections/*/waiting",
        "              FUSE: waiting over 0 all the time: its daemon is the limit (root, or who mounted it)",
        "  changes     More num_workers and prefetch_factor, large shards or mmap, not small files; data on local NVMe",
        "NETWORK/link on gpu03",
        "  reads       ethtool eth0; ethtool -S eth0 | grep -iE 'err|crc|symbol|discard'",
        "              Speed as its peers'? Link detected? crc, symbol or discard counters that grow?",
        "  reads       journalctl -k --since=-1h --no-pager -g 'link|carrier'",
        "              When it went down and up, and what the driver said (root, or group systemd-journal)",
        "  changes     Reseat or replace cable and optics, try another switch port; keep the node out until then",
        "STORAGE/checkpoint on gpu01",
        "  reads       iostat -xmz 1 5",
        "              Writes at what the device can: it is the limit; far below: one thread serialises or copies",
        "  reads       nfsiostat 1 5 MOUNT",
        "              NFS: avg RTT of writes is server and wire; avg exe beyond it is the queue on this client",
        "  makes load  fio --name=checkpoint --directory=MOUNT --rw=write --bs=1M --size=4G --end_fsync=1 --unlink=1",
        "              What one stream gets: checkpoint bytes over this is the stall; writes 4 GB",
        "  changes     Asynchronous (DCP async_save) and sharded over all ranks; local NVMe first, drained behind the job",
    ]  # fmt: skip


def test_nothing_is_to_be_done_about_work_doubt_and_what_never_was_suspected() -> None:
    rows = (
        stretch(0, 60, "COMPUTE"),
        stretch(60, 90, "UNKNOWN"),
        stretch(90, 93, "NETWORK", "loss", suspected=False),
    )
    assert ending(*rows) == []


def test_a_hostile_node_stays_text() -> None:
    foul = "gpu\x1b[2J; reboot"
    lines = ending(stretch(0, 60, "GPU", "fault", culprits=(Culprit("node", foul, (foul,)),)))
    assert all(line.isprintable() for line in lines)
    assert "GPU/fault on gpu\N{SYMBOL FOR ESCAPE}[2J; reboot" in lines
