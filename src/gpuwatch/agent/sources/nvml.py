"""GPUs, read through NVML in a forked child that may hang or crash alone."""

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import COUNTER, GAUGE, LABEL, Absent, Metric, Reading

ROWS = (
    Metric("gpu", "gpu", LABEL, "int", "", "index", "Index as NVML counts."),
    Metric("uuid", "gpu", LABEL, "str", "", "uuid", "Unique id."),
    Metric("model", "gpu", LABEL, "str", "", "name", "Product name."),
    Metric("util_pct", "gpu", GAUGE, "int", "%", "util gpu", "Share of the last sample period in which any kernel ran: 100 while spinning in a collective too.", high=100),
    Metric("memory_util_pct", "gpu", GAUGE, "int", "%", "util memory", "Share of the last sample period in which device memory was read or written.", high=100),
    Metric("memory_used_bytes", "gpu", GAUGE, "int", "B", "memory used", "Device memory in use, reserved memory left out where the driver tells it.", high=2**44),
    Metric("memory_total_bytes", "gpu", GAUGE, "int", "B", "memory total", "Device memory.", high=2**44),
    Metric("power_w", "gpu", GAUGE, "float", "W", "power", "Board power: a 1 s average on Ampere and later.", scale=0.001, high=20000),
    Metric("power_limit_w", "gpu", GAUGE, "float", "W", "power limit", "Enforced power limit.", scale=0.001, high=20000),
    Metric("sm_clock_mhz", "gpu", GAUGE, "int", "MHz", "clock sm", "SM clock.", high=20000),
    Metric("sm_clock_max_mhz", "gpu", GAUGE, "int", "MHz", "clock sm max", "Largest SM clock.", high=20000),
    Metric("temperature_c", "gpu", GAUGE, "int", "degC", "temperature", "Core temperature.", low=-50, high=200),
    Metric("event_reasons", "gpu", GAUGE, "int", "bits", "reasons", "Why clocks are what they are (nvmlClocksEventReasons), at this instant."),
    Metric("throttle_power_cap_ns", "gpu", COUNTER, "int", "ns", "field 74 power", "Time below the wanted clock because of the power cap: evidence of compute."),
    Metric("throttle_sync_boost_ns", "gpu", COUNTER, "int", "ns", "field sync boost", "Time held back by a sync boost group."),
    Metric("throttle_sw_thermal_ns", "gpu", COUNTER, "int", "ns", "field sw thermal", "Time slowed by software because of heat."),
    Metric("throttle_hw_thermal_ns", "gpu", COUNTER, "int", "ns", "field hw thermal", "Time slowed by hardware because of heat."),
    Metric("throttle_hw_brake_ns", "gpu", COUNTER, "int", "ns", "field hw brake", "Time slowed by the power brake."),
    Metric("energy_mj", "gpu", COUNTER, "int", "mJ", "energy", "Energy since the driver was loaded."),
    Metric("pcie_gen", "gpu", GAUGE, "int", "1", "pcie gen", "PCIe generation now; falls when idle.", high=16),
    Metric("pcie_gen_max", "gpu", GAUGE, "int", "1", "pcie gen max", "PCIe generation that card and slot can do.", high=16),
    Metric("pcie_width", "gpu", GAUGE, "int", "1", "pcie width", "PCIe lanes now.", high=64),
    Metric("pcie_width_max", "gpu", GAUGE, "int", "1", "pcie width max", "PCIe lanes that card and slot can do.", high=64),
    Metric("gpu_count", "node", GAUGE, "int", "1", "count", "GPUs that the driver lists."),
    Metric("gpu", "gpu_process", LABEL, "int", "", "index", "Index as NVML counts."),
    Metric("pid", "gpu_process", LABEL, "int", "", "pid", "Process with a compute context, as the driver numbers it."),
    Metric("gpu_memory_bytes", "gpu_process", GAUGE, "int", "B", "process memory", "Device memory that it holds.", high=2**44),
)  # fmt: skip


class Reader(object):
    """Reads them."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def read(self) -> Reading:
        """Read all rows once."""
        raise Absent("not read yet")
