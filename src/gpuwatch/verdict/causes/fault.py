"""GPU/fault: the driver lost a GPU, or reported an error that ends its work.

A fresh error on one node stands above all statistics. What a program did wrong (13, 31, 43), what
was corrected (63, 92) and what only follows (45) is none.
"""

from gpuwatch.agent.nvml.locator import IS_LOST
from gpuwatch.verdict.evidence import NOTHING, Assessment, Context, Kind, assessment, number

NAME = Kind("GPU", "fault")
FATAL = frozenset({48, 62, 64, 74, 79, 94, 95, 109, 119, 120, 136, 140, 143, *range(144, 151)})
"""Critical errors after which a GPU, or its NVLink, needs a reset: NVIDIA's catalogue of Xid errors."""


def assess(context: Context) -> Assessment:
    """Judge one rank."""
    gpu = context.gpu
    if gpu.lost or gpu.doubt == IS_LOST:
        found = number("gpu_lost", 1.0, "", 1.0, "the driver says that the GPU is lost:")
        text = "has lost its GPU: the driver says that it is off the bus"
    elif gpu.fresh_xid in FATAL:
        found = number("xid", float(gpu.fresh_xid or 0), "", None, "critical error (Xid)")
        text = f"has a GPU with a critical error: Xid {gpu.fresh_xid}"
    else:
        return NOTHING
    told = assessment(context, NAME, 0.95, text=text, support=(found,))
    return Assessment(
        *NAME, told.score, 1.0, 1.0, told.support, told.against, told.missing, told.text
    )  # fmt: skip


__all__ = ["FATAL", "NAME", "assess"]
