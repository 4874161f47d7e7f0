"""The nodes of a Slurm job, as squeue on this machine tells them."""

import re
import shutil
import subprocess

from gpuwatch.errors import InputError
from gpuwatch.job.nodeset import Address, expand

__all__ = ["nodes", "running"]

TIMEOUT_S = 15
GONE = b"Invalid job id"
"""What squeue says of a job that ended some minutes ago."""
_JOB_ID = re.compile(r"[0-9]{1,12}([_+][0-9]{1,9})?", re.ASCII)


def nodes(job_id: str) -> tuple[Address, ...]:
    """Return the nodes of a job that runs.

    Args:
        job_id: `123456`, an element of an array `123456_7`, or of a pack `123456+1`.

    Raises:
        InputError: no job id, no squeue here, or no nodes.
    """
    found = running(job_id)
    if not found:
        raise InputError(f"job {job_id} is not running on any node")
    return found


def running(job_id: str) -> tuple[Address, ...]:
    """Return the nodes that a job has now, none if it waits or has ended.

    Raises:
        InputError: no job id, no squeue here, or no answer from it.
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
    if answer.returncode and GONE not in answer.stderr:
        words = answer.stderr.decode("utf-8", "replace").split()
        raise InputError(f"squeue does not tell of job {job_id}: {' '.join(words)[:200]}")
    listed = answer.stdout.decode("utf-8", "replace").split()
    return tuple(dict.fromkeys(expand(",".join(listed)))) if listed else ()
