"""host: what of a node's set-up costs a job time, or makes it fail later: GPUs, limits, clocks, CPUs."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuwatch.preflight.alike import alike
from gpuwatch.preflight.check import Check, Limit, Site, not_judged
from gpuwatch.preflight.errand import Errand, ErrandError
from gpuwatch.preflight.numbers import count, size
from gpuwatch.preflight.result import Fact, Finding

__all__ = ["CHECK", "Host", "judged"]

CPUS, PCI, NVIDIA = "/sys/devices/system/cpu/", "/sys/bus/pci/devices/", "/proc/driver/nvidia/"
RDMA, SHARED = "/sys/class/infiniband/", "/dev/shm"  # noqa: S108 - a mount whose size is asked of df
FILES = (
    f"{CPUS}cpu[0-9]*/cpufreq/scaling_governor", f"{CPUS}cpu0/cpufreq/scaling_driver", "/proc/self/limits",
    "/proc/cpuinfo", "/proc/modules", "/proc/sys/kernel/osrelease", f"{NVIDIA}version", f"{NVIDIA}gpus/*/information",
    f"{RDMA}*/device/numa_node", f"{PCI}*/numa_node", f"{PCI}*/vendor", f"{PCI}*/class",
)  # fmt: skip
ASKED = "index,persistence_mode,ecc.errors.uncorrected.volatile.total,retired_pages.pending,remapped_rows.failure"
COMMANDS = {
    "smi": ["nvidia-smi", f"--query-gpu={ASKED}", "--format=csv,noheader,nounits"],
    "clock": ["timedatectl", "show", "-p", "NTPSynchronized", "--value"],
    "shm": ["df", "-P", "-B1", SHARED],
    "pci": ["lspci", "-vvv"],
}
COMMAND_S = 15.0
SHM = Limit(
    "shm",
    1e9,
    "B",
    "Size of /dev/shm",
    "loaders pass batches through it; containers' default of 64 MB ends them with SIGBUS",
)
FILES_OPEN = Limit(
    "nofile",
    4096,
    "files",
    "Hard limit of open files",
    "each rank holds sockets to others and files of its loaders; 1024 is used up by some tens of loaders",
)
DMA_BUF = (5, 12)
"""Linux from which the open kernel module needs no nvidia-peermem: DMA-BUF of RDMA, merged in 5.12."""


@dataclass(frozen=True)
class Host:
    """What one node says of itself.

    Attributes:
        node: its name.
        texts: files by path.
        says: what commands printed, by name of COMMANDS; without those that failed.
    """

    node: str
    texts: Mapping[str, str]
    says: Mapping[str, str]

    def named(self, pattern: str) -> dict[str, str]:
        """Return files whose whole path fits, by the pattern's first group."""
        found = ((re.fullmatch(pattern, path), text.strip()) for path, text in self.texts.items())
        return {match[1]: text for match, text in found if match}

    @property
    def gpus(self) -> dict[str, int | None]:
        """PCI address of each GPU that the driver has, to its NUMA node; None: not told, by -1 too."""
        driven = self.named(rf"{NVIDIA}gpus/(.+)/information")
        nodes = self.named(rf"{PCI}(.+)/numa_node")
        return {address: count(nodes.get(address.lower())) for address in driven}


async def run(site: Site) -> list[Finding]:
    """Read all nodes, judge each, then what should be alike."""
    hosts, found = [], []
    for errand in site.errands:
        try:
            hosts.append(await _read(errand))
        except ErrandError as error:
            found.append(not_judged(errand.node.name, error.what))
    for host in hosts:
        mine = list(judged(host))
        found += mine or [
            Finding(
                subject=host.node,
                judgement="fine",
                text=f"{host.node}: nothing of its set-up stands in the way",
            )
        ]
    drivers = {
        h.node: v[1]
        for h in hosts
        if (
            v := re.search(
                r"Module\S*\s+(?:for \S+\s+)?([\d.]+)", h.texts.get(f"{NVIDIA}version", "")
            )
        )
    }
    return found + alike(
        "version of the NVIDIA driver",
        drivers,
        "one version on all nodes: NCCL and CUDA fail or fall back where they differ",
    )


async def _read(errand: Errand) -> Host:
    texts = await errand.texts(*FILES)
    says = {}
    lacking = await errand.lacks(*(argv[0] for argv in COMMANDS.values()))
    for name, argv in COMMANDS.items():
        if argv[0] not in lacking:
            ran = await errand.run(argv, COMMAND_S)
            if ran.ended_well:
                says[name] = ran.out
    return Host(errand.node.name, texts, says)


def judged(host: Host) -> Iterator[Finding]:
    """Judge one node; what is in order is not told."""
    yield from _governor(host)
    yield from _limits(host)
    yield from _shared_memory(host)
    yield from _clock(host)
    yield from _gpus(host)
    yield from _gpu_direct(host)
    yield from _nearness(host)
    yield from _acs(host)


def _fault(host: Host, text: str, hint: str, *facts: Fact) -> Finding:
    return Finding(
        subject=host.node, judgement="fault", text=f"{host.node}: {text}", hint=hint, facts=facts
    )


def _governor(host: Host) -> Iterator[Finding]:
    """With intel_pstate and amd-pstate `powersave` is the usual one, and scales as `performance` does."""
    governors = host.named(rf"{CPUS}(cpu\d+)/cpufreq/scaling_governor")
    slow = sum(governor == "powersave" for governor in governors.values())
    if slow and host.texts.get(f"{CPUS}cpu0/cpufreq/scaling_driver", "").strip() == "acpi-cpufreq":
        yield _fault(
            host,
            f"{slow} of {len(governors)} CPUs stay at their lowest clock (governor powersave of acpi-cpufreq)",
            "cpupower frequency-set -g performance",
            Fact("powersave", slow, "CPUs", 0),
        )


def _limits(host: Host) -> Iterator[Finding]:
    found = re.findall(
        r"^Max (locked memory|open files)\s+(\S+)\s+(\S+)",
        host.texts.get("/proc/self/limits", ""),
        re.MULTILINE,
    )
    hard = {name: most for name, _, most in found}
    has_rdma = any(path.startswith(RDMA) for path in host.texts)
    memory = count(hard.get("locked memory"))
    if has_rdma and memory is not None:
        yield _fault(
            host,
            f"at most {size(memory)} of memory may be locked: RDMA cannot register its buffers",
            "memlock unlimited in /etc/security/limits.conf, LimitMEMLOCK=infinity of sshd and slurmd",
            Fact("memlock", memory),
        )
    files = count(hard.get("open files"))
    if files is not None and files < FILES_OPEN.value:
        yield _fault(
            host,
            f"at most {files} files may be open",
            "nofile 1048576 in /etc/security/limits.conf",
            Fact("nofile", files, FILES_OPEN.unit, FILES_OPEN.value),
        )


def _shared_memory(host: Host) -> Iterator[Finding]:
    words = host.says.get("shm", "").splitlines()[-1:]
    total = count([*words[0].split(), "", ""][1]) if words else None
    if total is not None and total < SHM.value:
        yield _fault(
            host,
            f"{SHARED} has {size(total)}: loaders that pass batches through it end with a bus error",
            "--shm-size or --ipc=host for the container; mount -o remount,size=",
            Fact("shm", total, SHM.unit, SHM.value),
        )


def _clock(host: Host) -> Iterator[Finding]:
    if host.says.get("clock", "").strip() == "no":
        yield _fault(
            host,
            "its clock is not synchronised",
            "chrony or systemd-timesyncd: logs and certificates need it, training does not",
        )


def _gpus(host: Host) -> Iterator[Finding]:
    for line in host.says.get("smi", "").splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) != len(ASKED.split(",")):
            continue
        number, persistence, errors, pending, rows = words
        if persistence == "Disabled":
            yield _fault(
                host,
                f"GPU {number} is not in persistence mode: its driver starts anew for each process",
                "nvidia-persistenced, or nvidia-smi -pm 1",
            )
        if count(errors):
            yield _fault(
                host,
                f"GPU {number} had {errors} memory errors that could not be corrected",
                "drain the node and reset the GPU; dmesg names the Xid",
                Fact("ecc", count(errors), "errors", 0),
            )
        if pending == "Yes" or count(rows):
            yield _fault(
                host,
                f"GPU {number} has memory that waits to be retired, or can not be remapped",
                "reset the GPU; have it replaced where that does not help",
            )


def _gpu_direct(host: Host) -> Iterator[Finding]:
    if not host.gpus or not any(path.startswith(RDMA) for path in host.texts):
        return
    modules = host.texts.get("/proc/modules", "")
    release = re.match(
        r"([0-9]{1,3})\.([0-9]{1,3})", host.texts.get("/proc/sys/kernel/osrelease", "")
    )
    is_open = "Open Kernel Module" in host.texts.get(f"{NVIDIA}version", "")
    by_dma_buf = is_open and release is not None and (int(release[1]), int(release[2])) >= DMA_BUF
    if not re.search(r"^(nvidia_peermem|nv_peer_mem) ", modules, re.MULTILINE) and not by_dma_buf:
        yield _fault(
            host,
            "GPUDirect RDMA is not there: what is exchanged goes through the host's memory",
            "modprobe nvidia-peermem, or the open kernel module on Linux 5.12 or newer",
        )


def _nearness(host: Host) -> Iterator[Finding]:
    ports = {count(node) for node in host.named(rf"{RDMA}([^/]+)/device/numa_node").values()}
    if not ports or None in ports:
        return
    far = [address for address, node in host.gpus.items() if node not in {None, *ports}]
    if far:
        yield _fault(
            host,
            f"{len(far)} of {len(host.gpus)} GPUs have no RDMA port on their NUMA node",
            "nvidia-smi topo -m; each GPU's traffic crosses between sockets: another slot, or pin ranks to near ports",
            Fact("far", len(far), "GPUs", 0),
        )


def _acs(host: Host) -> Iterator[Finding]:
    """Access control of bridges sends traffic between GPUs up to the CPU; a virtual machine needs it."""
    if len(host.gpus) < 2 or re.search(
        r"^flags\s*:.*\bhypervisor\b", host.texts.get("/proc/cpuinfo", ""), re.MULTILINE
    ):
        return
    text = host.says.get("pci", "")
    if "ACSCtl" not in text:
        yield not_judged(
            host.node, f"{host.node}: whether ACS is on can not be read (lspci -vvv as root tells)"
        )
    elif bridges := len(re.findall(r"ACSCtl:\s+SrcValid\+", text)):
        yield _fault(
            host,
            f"ACS is on at {bridges} PCIe bridges: GPUs and adapters reach each other by way of the CPU only",
            "off in the firmware, or setpci on the bridges at boot; needed in virtual machines only",
            Fact("acs", bridges, "bridges", 0),
        )


CHECK = Check(
    name="host",
    does="reads governor, limits, /dev/shm, clock, driver, ECC and retired memory, persistence mode, GPUDirect RDMA, NUMA nodes and ACS",
    judges="powersave where it pins the lowest clock (acpi-cpufreq), too little lockable memory with RDMA, few open files, a small /dev/shm, a clock that is not synchronised, bad GPU memory, no persistence mode, RDMA without GPUDirect, GPUs without a near port, ACS on bare metal, drivers that differ",
    run=run,
    limits=(SHM, FILES_OPEN),
)
