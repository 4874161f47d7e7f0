"""`gpuwatch init`: a commented job file to begin with."""

import sys
from argparse import Namespace
from pathlib import Path

from gpuwatch.errors import InputError
from gpuwatch.job.template import template

__all__ = ["init"]


def init(given: Namespace) -> int:
    """Write the job file to stdout, or to a file that is not there yet."""
    if given.out is None:
        sys.stdout.write(template(given.nodes))
        return 0
    file = Path(given.out)
    text = template(given.nodes, file.name)
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise InputError(f"{file}: is there already and stays as it is") from None
    except OSError as error:
        raise InputError(f"{file}: {(error.strerror or str(error)).lower()}") from None
    return 0
