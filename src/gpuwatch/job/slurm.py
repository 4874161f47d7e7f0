"""The nodes of a Slurm job, as squeue on this machine tells them."""

import re
import shutil
import subprocess

from gpuwatch.errors import InputError
from gpuwatch.job.nodeset import Address, expand

__all__ = ["nodes"]

TIMEOUT_S = 15
_JOB_ID = re.compile(r"[0-9]{1,12}([_+][0-9]{1,9})?", re.ASCII)


def nodes(job_id: str) -> tuple[Address, ...]:
    """Return the nodes that a running job has.

    Args:
        job_id: `123456`, an element of an array `123456_7`, or of a pack `123456+1`.

    Raises:
        InputError: no job id, no squeue here, or no nodes.
    """
    if not _JOB_ID.fullmatch(job_id):
        raise InputError(f"{job_id!r} is no Slurm job id")
    if not shutil.which("squeue"):
        raise InputError("this machine has no squeue to ask for the job's nodes; use `nodes`")
    # %N is squeue's compressed list of host names: the syntax of a node set.
    command = ["squeue", "--noheader", "--states=RUNNING", "--format=%N", f"--jobs={job_id}"]
    try:
        answer = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"squeue gave no answer: {error}") from None
    if answer.returncode:
        words = answer.stderr.decode("utf-8", "replace").split()
        raise InputError(f"squeue does not know job {job_id}: {' '.join(words)[:200]}")
    listed = answer.stdout.decode("utf-8", "replace").split()
    if not listed:
        raise InputError(f"job {job_id} is not running on any node")
    return tuple(dict.fromkeys(expand(",".join(listed))))
