"""The job's ranks, and what their threads wait in (5 Hz)."""

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import COUNTER, GAUGE, LABEL, Absent, Metric, Reading

ROWS = (
    Metric("group", "thread_group", LABEL, "str", "", "group", "Ranks of one job: `slurm:ID`, `rdzv:ADDRESS:PORT`, `match:PATTERN` or `session:ID`."),
    Metric("rank", "thread_group", LABEL, "str", "", "rank", "Global rank, else `local:N`, else `pid:N`."),
    Metric("role", "thread_group", LABEL, "str", "", "role", "`main`, `loader`, `checkpoint` or `worker` (other threads of the rank)."),
    Metric("pid", "thread_group", LABEL, "int", "", "pid", "Process of the rank's main thread."),
    Metric("gpu", "thread_group", LABEL, "int", "", "gpu", "The rank's GPU; null when it could not be told."),
    Metric("threads", "thread_group", GAUGE, "int", "1", "threads", "Threads of this role."),
    Metric("sampled_threads", "thread_group", GAUGE, "int", "1", "sampled", "Threads that are sampled now."),
    Metric("samples", "thread_group", COUNTER, "int", "1", "samples", "Thread samples taken."),
    Metric("run_ns", "thread_group", COUNTER, "int", "ns", "schedstat 0", "CPU time of the sampled threads."),
    Metric("delay_ns", "thread_group", COUNTER, "int", "ns", "schedstat 1", "Time that sampled threads could run and waited for a CPU."),
    Metric("major_faults", "thread_group", COUNTER, "int", "1", "stat majflt", "Page faults that had to read from storage."),
    Metric("storage_read_bytes", "thread_group", COUNTER, "int", "B", "io read_bytes", "Bytes that the role's processes made the storage read."),
    Metric("storage_write_bytes", "thread_group", COUNTER, "int", "B", "io write_bytes", "Bytes that the role's processes made the storage write."),
    Metric("world_size", "thread_group", GAUGE, "int", "1", "WORLD_SIZE", "Ranks of the whole job, as its environment says."),
    Metric("group", "thread_wait", LABEL, "str", "", "group", "Ranks of one job: `slurm:ID`, `rdzv:ADDRESS:PORT`, `match:PATTERN` or `session:ID`."),
    Metric("rank", "thread_wait", LABEL, "str", "", "rank", "Global rank, else `local:N`, else `pid:N`."),
    Metric("role", "thread_wait", LABEL, "str", "", "role", "As in thread_group."),
    Metric("wait", "thread_wait", LABEL, "str", "", "wait", "Family of what threads were blocked on: see waits.py."),
    Metric("while_gpu", "thread_wait", LABEL, "str", "", "gpu state", "`idle`, `busy` or `unknown`: the rank's GPU at that moment."),
    Metric("wait_samples", "thread_wait", COUNTER, "int", "1", "samples", "Samples in which a thread was found so."),
)  # fmt: skip


class Reader(object):
    """Reads them."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def read(self) -> Reading:
        """Read all rows once."""
        raise Absent("not read yet")
