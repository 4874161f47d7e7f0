"""A step of the node's own Slurm job, for clusters where nobody may log in to a node."""

from gpuwatch.transport.bootstrap import last_line, start_command
from gpuwatch.transport.child import told
from gpuwatch.transport.link import LinkError
from gpuwatch.transport.node import Node

__all__ = ["explained", "line"]

ENDED = ": Exited with exit code "
"""How srun tells that the step's program ended, with the status that it passes on."""
FINAL = ("Invalid job id", "Access/permission denied", "already completing or completed")


def line(node: Node, marker: str) -> list[str]:
    """Return srun's words (srun(1)).

    `--overlap` shares what the job holds instead of waiting for it, `--unbuffered` passes output
    on before its line ends. The step begins in `/`, as the viewer's folder need not be there,
    without the viewer's environment and without MPI.

    Raises:
        InputError: as `start_command`.
    """
    return [
        "srun", f"--jobid={node.slurm_id}", "--overlap", "-N1", "-n1", "-w", node.host,
        "--unbuffered", "--chdir=/", "--export=NONE", "--mpi=none",
        "/bin/sh", "-c", start_command(node, marker),
    ]  # fmt: skip


def explained(status: int, errors: str) -> LinkError | None:
    """Say what srun or the step's daemon complained of."""
    if ENDED in errors:
        return None
    own = [text for text in errors.splitlines() if text.startswith(("srun: ", "slurmstepd: "))]
    if not own:
        return told("srun", status, errors)
    worst = next((text for text in own if "error: " in text), own[-1])
    said = last_line(worst.replace("error: ", "", 1))
    final = any(words in errors for words in FINAL)
    hint = "check that the job runs, and that it is yours: squeue --me" if final else ""
    return LinkError(said, "resolve", hint, heals=not final)
