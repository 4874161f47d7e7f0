"""Host files of MPI launchers and pdsh: one node a line, `slots=8` and the like after it ignored."""

from pathlib import Path

from gpuwatch.errors import InputError
from gpuwatch.job.document import read_text
from gpuwatch.job.nodeset import Address, expand

__all__ = ["read"]


def read(file: Path) -> tuple[Address, ...]:
    """Return the addresses in a host file, each once: a host may be listed once a slot.

    Raises:
        InputError: the file cannot be read, or a line that is no node, with its number.
    """
    found: dict[Address, None] = {}
    for number, line in enumerate(read_text(file).splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if any("=" not in word for word in words[1:]):
            raise InputError(
                f"{file}:{number}: after the host only words such as slots=8 may stand"
            )
        try:
            found |= dict.fromkeys(expand(words[0]))
        except InputError as error:
            raise InputError(f"{file}:{number}: {error}") from None
    return tuple(found)
