"""What to do about a verdict: what proves or refutes it on the node, then what helps.

Commands are for a person to read, fill in and run: gpuwatch runs none of them. They need no root
unless the text says so. Names that a node gave are hostile: they enter a command quoted, and only
if they are printable and cannot be taken for an option.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from gpuwatch.model.text import sanitize
from gpuwatch.model.verdict import CAUSES, STATES, Culprit, Finding, State

__all__ = ["ADVICE", "LENGTH", "Advice", "Judged", "Known", "Medium", "advise", "known", "medium"]

LENGTH = 100
"""Characters of a text, at most."""
_VALUE_LENGTH = 128
_NUMBERS = ("pid", "gpu")

Kind = Literal["reads", "makes load", "changes"]
"""`reads`: looks, at most sends a few packets, and never stops a process; `makes load`: not while
a job runs that must not feel it; `changes`: of the job's code or settings, or of the machine, without
a command."""

Medium = Literal["TCP", "RDMA", "disk", "server"]
"""By which way data is exchanged, or where it comes from: the same cause is looked at differently."""


class Advice(msgspec.Struct, frozen=True):
    """One thing to do; `on` is the medium that it is for, None for all."""

    text: str
    command: str | None
    kind: Kind
    on: Medium | None = None


class Known(msgspec.Struct, frozen=True):
    """What a command can be filled in with; None stays a word in capitals.

    `port` is an interface, `link` an RDMA port as `mlx5_0/1`, of the adapter `mlx5_0`; `mount` a
    directory; `peer` the node at the other end.
    """

    node: str | None = None
    port: str | None = None
    link: str | None = None
    adapter: str | None = None
    mount: str | None = None
    peer: str | None = None
    pid: str | None = None
    gpu: str | None = None


class Judged(Protocol):
    """What a verdict and a stretch of a report have in common."""

    @property
    def state(self) -> State:
        """What is waited for."""

    @property
    def cause(self) -> str | None:
        """Why."""

    @property
    def node(self) -> str | None:
        """Whose it is; None: the job's."""

    @property
    def culprits(self) -> tuple[Culprit, ...]:
        """Who is to blame."""

    @property
    def support(self) -> tuple[Finding, ...]:
        """The facts for it."""


def advise(
    state: State, cause: str | None, on: Medium | None = None, facts: Known | None = None
) -> tuple[Advice, ...]:
    """Return what to do about a verdict, commands filled in, the next step first.

    Args:
        state: of the verdict.
        cause: of the verdict; one that is not known here has no advice.
        on: only what is for this medium; None: for all.
        facts: what to fill in.
    """
    fill = facts or Known()
    return tuple(
        piece
        if piece.command is None
        else msgspec.structs.replace(piece, command=_filled(piece.command, fill))
        for piece in ADVICE.get((state, cause), ())
        if on is None or piece.on in (None, on)
    )


def known(verdict: Judged) -> Known:
    """Return what a verdict itself says of where to look."""
    blamed = [c for c in verdict.culprits if c.kind != "unknown"]
    places = [name for c in blamed for name in c.nodes]
    node = verdict.node or (places[0] if places else None)
    joined = verdict.state == "PEER" or any(c.kind in ("path", "job") for c in blamed)
    port = next((m[1] for f in verdict.support if (m := _PORT.match(f.metric))), "")
    adapter, rdma, _ = port.partition("/")
    return Known(
        node=node,
        port=None if rdma else port or None,
        link=port if rdma else None,
        adapter=adapter if rdma else None,
        mount=next((c.id for c in blamed if c.kind == "mount" and c.id.startswith("/")), None),
        peer=next((name for name in places if name != node), None) if joined else None,
        gpu=next((m[1] for c in blamed if c.kind == "gpu" and (m := _GPU.match(c.id))), None),
    )


def medium(verdict: Judged) -> Medium | None:
    """Return by which way a verdict waits, as far as its own evidence tells."""
    metrics = [f.metric for f in verdict.support]
    if verdict.state == "NETWORK" and metrics:
        return "RDMA" if any(m.startswith("rdma.") for m in metrics) else "TCP"
    if any(c.kind == "mount" for c in verdict.culprits) or any(map(_SERVER.match, metrics)):
        return "server"
    return "disk" if any(map(_DISK.match, metrics)) else None


_PORT = re.compile(r"(?:nic|rdma)\.([^.]+)")
_GPU = re.compile(r"GPU (\d+) of ", re.ASCII)
_SERVER = re.compile(r"mount\.|thread_wait\.\w+\.(netfs|fuse)$")
_DISK = re.compile(r"disk\.|thread_wait\.\w+\.block-")
_PLACE = re.compile(r"\{(" + "|".join(Known.__struct_fields__) + r")\}")


def _filled(command: str, facts: Known) -> str:
    """Put known values in; a word in capitals stays where one is missing or would mislead."""

    def value(match: re.Match[str]) -> str:
        found: str | None = getattr(facts, match[1])
        if not found or found.startswith("-") or sanitize(found, _VALUE_LENGTH) != found:
            return match[1].upper()
        if match[1] in _NUMBERS and not (found.isascii() and found.isdigit()):
            return match[1].upper()
        return shlex.quote(found)

    return _PLACE.sub(value, command)


def _reads(text: str, command: str, on: Medium | None = None) -> Advice:
    return Advice(text, command, "reads", on)


def _loads(text: str, command: str, on: Medium | None = None) -> Advice:
    return Advice(text, command, "makes load", on)


def _changes(text: str, on: Medium | None = None) -> Advice:
    return Advice(text, None, "changes", on)


_DISKS = "iostat -xmz 1 5"
_NFS = "nfsiostat 1 5 {mount}"
_BUSIEST = "top -b -d 5 -n 2 | grep -A 25 ^top"
_STACK = "py-spy dump --nonblocking --pid {pid}"
_CLOCKS = "nvidia-smi dmon -s pucv -c 5"
_OWN_CGROUP = "cd \"/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/{pid}/cgroup)\""
_HOLDERS = "nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv"
_RETRANSMITS = (
    "nstat -n; sleep 10; nstat -z TcpOutSegs TcpRetransSegs TcpExtTCPLossProbes TcpExtTCPTimeouts"
)
_RDMA = "rdma -p statistic show link {link}"
_SENT = "grep . /sys/class/infiniband/*/ports/*/counters/port_*_data"
_IPERF = "iperf3 -c {peer} -P 8 -t 10"
_IB_BW = "ib_write_bw -d {adapter} --report_gbits {peer}"

_TABLE: Mapping[str, tuple[Advice, ...]] = {
    "COMPUTE": (
        _reads("Clocks at their maximum and power near the limit: the GPU does what it can", _CLOCKS),
        _changes("To go faster: bf16 or FP8, fused attention, larger batches; torch.profiler for one step"),
    ),
    "COMPUTE/imbalance": (
        _reads("Same clocks and power limit as on its peers: it has more work; lower: a slow GPU", "nvidia-smi --query-gpu=index,clocks.sm,power.draw,power.limit,temperature.gpu --format=csv"),
        _changes("Share out tokens instead of samples (packing, length buckets); re-cut pipeline stages"),
        _changes("Where the slow rank wanders: garbage collection (gc.freeze, collect on all ranks at one step)"),
    ),
    "NETWORK": (
        _reads("Errors, drops and overruns of each port", "ip -s -s link show"),
    ),
    "NETWORK/loss": (
        _reads("Retransmits less loss probes over 0.1 % of segments, or timeouts: loss, not noise", _RETRANSMITS, "TCP"),
        _reads("packet_seq_err, local_ack_timeout_err that grow: lost; out_of_sequence alone: adaptive routing", _RDMA, "RDMA"),
        _loads("Between the two nodes, iperf3 -s at the other end, -R for the way back: read Retr", _IPERF, "TCP"),
        _loads("Between the two nodes, ib_write_bw alone at the other end: bandwidth under line rate", _IB_BW, "RDMA"),
        _changes("Cable, optics and switch port of the end that all losing paths share; then MTU and ECN or PFC"),
    ),
    "NETWORK/bandwidth": (
        _reads("rxkB/s or txkB/s near the line rate at each step: the port is the limit", "sar -n DEV 1 5", "TCP"),
        _reads("Words of 4 bytes in 10 s; within 15 % of the rate all the time: the port is the limit", f"{_SENT}; sleep 10; {_SENT}", "RDMA"),
        _loads("What the path gives at best; iperf3 -s at the other end; under 85 % of line rate: a fault", _IPERF, "TCP"),
        _loads("What the path gives at best; ib_write_bw alone at the other end", _IB_BW, "RDMA"),
        _changes("Gradient compression (bf16, PowerSGD hooks), accumulation with no_sync, NCCL over more ports"),
    ),
    "NETWORK/link": (
        _reads("Speed as its peers'? Link detected? crc, symbol or discard counters that grow?", "ethtool {port}; ethtool -S {port} | grep -iE 'err|crc|symbol|discard'", "TCP"),
        _reads("State, rate and bit errors of port and cable (root, NVIDIA's tools)", "mlxlink -d {adapter} -p 1 -m -c", "RDMA"),
        _reads("When it went down and up, and what the driver said (root, or group systemd-journal)", "journalctl -k --since=-1h --no-pager -g 'link|carrier'"),
        _changes("Reseat or replace cable and optics, try another switch port; keep the node out until then"),
    ),
    "NETWORK/congestion": (
        _reads("rtt far over minrtt, retrans or a small cwnd: queues on the path to these peers", "ss -tnio state established dst {peer}", "TCP"),
        _reads("np_cnp_sent, rp_cnp_handled, roce_slow_restart that grow: the fabric marks or pauses", _RDMA, "RDMA"),
        _reads("Pause frames sent: this node takes too slowly; received: the switch is full", "ethtool -S {port} | grep -iE 'pause|discard'"),
        _changes("ECN and PFC alike on all switches and hosts, adaptive routing, other jobs off the same uplinks"),
    ),
    "NETWORK/softirq": (
        _reads("One CPU at 100 % soft while others idle: packets are taken by one core", "mpstat -P ALL 1 5"),
        _reads("Columns 2 (dropped) and 3 (squeezed), one line a CPU: growing, the kernel falls behind", "cat /proc/net/softnet_stat; sleep 5; cat /proc/net/softnet_stat"),
        _changes("More receive queues (ethtool -L stops the link a moment: between jobs), irqbalance or RPS, MTU 9000"),
    ),
    "NETWORK/fallback": (
        _reads("Variables that force sockets: NCCL_IB_DISABLE=1, a wrong NCCL_IB_HCA or NCCL_NET (the job's user)", "tr '\\0' '\\n' < /proc/{pid}/environ | grep ^NCCL_"),
        _reads("Ports ACTIVE here, yet unused: in a container, /dev/infiniband must be there as well", "rdma link show; ls /dev/infiniband"),
        _changes("NCCL_DEBUG=INFO must say NET/IB; set NCCL_IB_HCA, NCCL_SOCKET_IFNAME; ulimit -l unlimited; GPUDirect"),
    ),
    "NETWORK/path": (
        _reads("pmtu below the interface's MTU, or a hop that both slow paths share", "tracepath -n {peer}"),
        _reads("Three whole jumbo frames (MTU 9000): lost or refused, the MTU is not the same all the way", "ping -c 3 -M do -s 8972 {peer}"),
        _changes("One MTU on hosts and switches; balancing by flow, not by packet; check routes and bond hashing"),
    ),
    "STORAGE": (
        _reads("r_await and w_await in ms, %util: is a local disk slow or full?", _DISKS),
    ),
    "STORAGE/read": (
        _reads("r_await over 5 ms, %util near 100: the disk is the limit; both low: threads ask one by one", _DISKS, "disk"),
        _reads("NFS: avg RTT is server and wire; avg exe beyond it is the queue on this client", _NFS, "server"),
        _reads("FUSE: waiting over 0 all the time: its daemon is the limit (root, or who mounted it)", "grep -H . /sys/fs/fuse/connections/*/waiting", "server"),
        _changes("More num_workers and prefetch_factor, large shards or mmap, not small files; data on local NVMe"),
    ),
    "STORAGE/metadata": (
        _reads("Many LOOKUP, GETATTR, READDIR a second beside few READ: names are asked for, not data", "nfsiostat 1 5 --dir {mount}", "server"),
        _reads("Which of the job's threads sit in which call of the kernel", "ps -L -o tid,stat,wchan:32,comm --ppid {pid} -p {pid}"),
        _changes("Shards (tar, Parquet), not small files; read the list of files once; mount with noatime, actimeo"),
    ),
    "STORAGE/object": (
        _reads("rtt, delivery_rate, rwnd_limited: far store, throttling store, or a reader that is late", "ss -tnio state established dst STORE"),
        _loads("One object: time to its first byte is the store, speed is the path", "curl -sS -o /dev/null -w '%{time_starttransfer} s %{speed_download} B/s\\n' URL"),
        _changes("Objects over 100 MB, more reads in flight (num_workers, prefetch), a cache on NVMe, same region"),
    ),
    "STORAGE/checkpoint": (
        _reads("Writes at what the device can: it is the limit; far below: one thread serialises or copies", _DISKS, "disk"),
        _reads("NFS: avg RTT of writes is server and wire; avg exe beyond it is the queue on this client", _NFS, "server"),
        _loads("What one stream gets: checkpoint bytes over this is the stall; writes 4 GB", "fio --name=checkpoint --directory={mount} --rw=write --bs=1M --size=4G --end_fsync=1 --unlink=1"),
        _changes("Asynchronous (DCP async_save) and sharded over all ranks; local NVMe first, drained behind the job"),
    ),
    "STORAGE/offload": (
        _reads("Reads and writes each step at what the device can: it is the limit", _DISKS),
        _changes("Offload to host memory instead, or over several NVMe; pinned buffers, more I/O in flight"),
    ),
    "CPU": (
        _reads("Who takes the CPUs; the second block counts, it is the mean of 5 s", _BUSIEST),
    ),
    "CPU/data-prep": (
        _reads("Loaders near 100 % each: decoding is the limit; the second block counts, the mean of 5 s", _BUSIEST),
        _loads("Where loaders spend it, 10 s, into loaders.svg (root, or the job's user where ptrace is allowed)", "py-spy record --nonblocking --subprocesses -d 10 -o loaders.svg -p {pid}"),
        _changes("num_workers up to the allowed cores, persistent_workers; decode on the GPU (DALI), tokenise offline"),
    ),
    "CPU/main-thread": (
        _reads("What the main thread does, a few times over (root, or the job's user where ptrace is allowed)", _STACK),
        _changes("torch.compile or CUDA graphs, no .item() or print each step, fused optimizer, gc off the step"),
    ),
    "CPU/pinned": (
        _reads("Affinity of the rank's children: one and the same CPU for all loaders proves it", "pgrep -P {pid} | xargs -n 1 taskset -cp"),
        _changes("Who binds: OMP_PROC_BIND, KMP_AFFINITY, GOMP_CPU_AFFINITY, Slurm --cpus-per-task and --cpu-bind"),
        _changes("In worker_init_fn: os.sched_setaffinity(0, CPUS), as libraries bind when they are imported"),
    ),
    "CPU/in-rank": (
        _reads("Which of its threads take CPUs, by name; the second block counts", "top -H -b -d 5 -n 2 -p {pid}"),
        _changes("OMP_NUM_THREADS near cores a rank; optimizer on the GPU; offline tokenising; tf.data threadpool size"),
    ),
    "CPU/numa": (
        _reads("Which CPUs and NUMA node are near each GPU and NIC; compare with the next line", "nvidia-smi topo -m; taskset -cp {pid}"),
        _reads("On which node the rank's memory lies (the job's user)", "numastat -p {pid}"),
        _changes("numactl --cpunodebind=N --membind=N a rank, torchrun --numa-binding, Slurm --gpu-bind=closest"),
    ),
    "CPU/quota": (
        _reads("cpu.max is the quota; nr_throttled that grows proves it (parents may have one as well)", f"{_OWN_CGROUP} && grep . cpu.max cpu.stat"),
        _changes("Kubernetes: raise or drop limits.cpu; Slurm: --cpus-per-task; else fewer threads (OMP_NUM_THREADS)"),
    ),
    "CPU/system": (
        _reads("Who takes the CPUs; the second block counts, it is the mean of 5 s", _BUSIEST),
        _reads("r over the number of CPUs: they are all taken; st: the hypervisor takes them", "vmstat 1 5"),
        _changes("Move the neighbour away or give it a lower cpu.weight; fewer loaders than cores; a dedicated host"),
    ),
    "MEMORY": (
        _reads("si, so: swapping; wa, b: threads that wait; free and cache", "vmstat 1 5"),
    ),
    "MEMORY/reclaim": (
        _reads("allocstall, pgscan_direct, workingset_refault_file that grow: the job itself reclaims", "grep -E '^(allocstall|pgscan_direct|workingset_refault_file)' /proc/vmstat"),
        _reads("high or max events that grow, current near max: its cgroup's limit is too low", f"{_OWN_CGROUP} && grep . memory.current memory.max memory.events"),
        _changes("Raise the memory limit; fewer num_workers x prefetch_factor, less pinned memory and /dev/shm"),
    ),
    "MEMORY/swap": (
        _reads("si and so over 0 all the time: it swaps now", "vmstat 1 5"),
        _reads("Whose memory is out (ranks and their loaders)", "grep -H VmSwap /proc/{pid}/status; swapon --show"),
        _changes("Fewer loaders, smaller queues; memory.swap.max=0 for the job's cgroup; no swap on such nodes (root)"),
    ),
    "PEER": (
        _reads("It only waits: look first at who is blamed. Its main thread should stand in a collective (root)", _STACK),
        _reads("All ranks of the job as NCCL sees them, the late and the missing ones (NCCL 2.24 or newer)", "ncclras -v"),
    ),
    "GPU": (
        _reads("Power, clocks, violations (pviol, tviol) of all GPUs: which one differs?", _CLOCKS),
    ),
    "GPU/throttled": (
        _reads("Which reason is Active: thermal and power brake are faults, SW Power Cap is full load", "nvidia-smi -i {gpu} -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK"),
        _changes("Fans, inlet temperature, dust, power supplies; drain the node. Power brake: the rack's power"),
        _changes("A power limit below that of its peers: somebody or something set it (nvidia-smi -pl, root)"),
    ),
    "GPU/fault": (
        _reads("Xid numbers and when (root, or group systemd-journal); 79 off the bus, 48, 94, 95 memory", "journalctl -k --no-pager -g 'NVRM: Xid'"),
        _reads("Is it still listed? Uncorrectable errors, rows that wait to be remapped", "nvidia-smi -L; nvidia-smi -i {gpu} -q -d ECC,ROW_REMAPPER"),
        _changes("Go on from the last checkpoint without this node; reset the GPU or reboot; replace it if it returns"),
    ),
    "GPU/shared": (
        _reads("All processes on each GPU: which is not of this job?", _HOLDERS),
        _reads("How busy each keeps it, by process", "nvidia-smi pmon -s um -c 5"),
        _changes("Other CUDA_VISIBLE_DEVICES, the scheduler's GPU isolation, exclusive compute mode (root), MIG"),
    ),
    "HOST-LINK": (
        _reads("How GPUs, NICs and CPUs are joined: PIX and NV near, SYS far", "nvidia-smi topo -m"),
    ),
    "HOST-LINK/pcie": (
        _reads("Width below its maximum, or generation below its siblings' under load, proves it", "nvidia-smi --query-gpu=pcie.link.width.current,pcie.link.width.max,pcie.link.gen.current --format=csv"),
        _reads("Throughput in MB/s and replays (pci) of each GPU", "nvidia-smi dmon -s et -c 5"),
        _changes("Reseat card or riser, check BIOS; pinned memory and non_blocking copies, GPUDirect RDMA or Storage"),
    ),
    "HOST-LINK/nvlink": (
        _reads("Fewer or slower links than its siblings; errors that grow; NVSwitch: the manager must be active", "nvidia-smi nvlink --status; nvidia-smi nvlink -e; systemctl is-active nvidia-fabricmanager"),
        _loads("Bandwidth of all GPUs of the node (nccl-tests): compare busbw with a healthy node", "all_reduce_perf -b 1G -e 4G -f 2 -g 8"),
        _changes("NCCL_P2P_DISABLE must not be set; drain the node, reset all its GPUs together"),
    ),
    "HUNG": (
        _reads("Which ranks are missing or behind in which communicator (on any node, NCCL 2.24 or newer)", "ncclras -v"),
        _reads("Where each rank's main thread stands: the odd one out is it (root or the job's user)", _STACK),
        _changes("Next time: flight recorder (TORCH_FR_BUFFER_SIZE=2000, TORCH_NCCL_DUMP_ON_TIMEOUT=1)"),
    ),
    "IDLE": (
        _reads("Who holds the GPUs, if anybody", _HOLDERS),
    ),
    "IDLE/demand": (
        _reads("No fault: it waits to be asked. Connections to its listening port show who asks", "ss -tnp"),
        _changes("Fewer replicas, or batch work on the same GPU"),
    ),
    "STARTUP": (
        _reads("What it is at: imports, downloads, compiling, joining the group (root or the job's user)", _STACK),
    ),
    "STARTUP/compile": (
        _reads("Compilers at work below the ranks", "pgrep -l 'ptxas|cicc|nvcc|ninja|clang|cc1plus'"),
        _changes("Keep the caches: TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR, JAX_COMPILATION_CACHE_DIR"),
    ),
    "STARTUP/storage": (
        _reads("rMB/s at what the device can: it only takes its time; far below: one thread reads", _DISKS, "disk"),
        _reads("NFS: kB/s and avg RTT of reads; all nodes at once share the server", _NFS, "server"),
        _loads("What 10 s of reading get, past the page cache", "fio --name=read --filename=FILE --readonly --rw=read --bs=1M --direct=1 --runtime=10 --time_based"),
        _changes("Each rank reads its shard only, or one broadcasts; copy to local NVMe first; mmap (safetensors)"),
    ),
    "UNKNOWN": (
        _reads("What GPUs do while nothing is told: high sm at low power spins, low sm starves", _CLOCKS),
        _reads("Where the main thread stands, a few times over (root, or the job's user)", _STACK),
    ),
}  # fmt: skip

ADVICE: Mapping[tuple[State, str | None], tuple[Advice, ...]] = {
    (state, cause): _TABLE[state if cause is None else f"{state}/{cause}"]
    for state in STATES
    for cause in (None, *CAUSES[state])
}
"""For every state, and every cause of it, what to do, the next step first."""
