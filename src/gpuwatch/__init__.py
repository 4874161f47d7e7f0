"""gpuwatch: what a distributed training job is waiting on, and who is to blame."""

__version__ = "0.1.0"
