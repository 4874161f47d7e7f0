"""`gpuwatch pack`: one file of a recording, to be sent or kept."""

import sys
import tempfile
from argparse import Namespace
from pathlib import Path

import gpuwatch.recording
from gpuwatch.errors import InputError, RecordingError
from gpuwatch.recording.pack import pack as packed
from gpuwatch.recording.redact import redact

__all__ = ["pack"]


def pack(given: Namespace) -> int:
    """Pack a recording, under other names if that is wanted."""
    file = Path(given.file)
    if file.suffix != ".gwz":
        raise InputError(f"{file}: a packed recording is called .gwz", f"name it {file}.gwz")
    recording = gpuwatch.recording.open(given.recording)
    if not given.redact:
        told = packed(recording, file)
    else:
        try:
            with tempfile.TemporaryDirectory(dir=file.parent, prefix=".gpuwatch-") as aside:
                redact(recording, Path(aside) / "redacted")
                told = packed(gpuwatch.recording.open(Path(aside) / "redacted"), file)
        except OSError as error:
            raise RecordingError(f"{file}: cannot be written: {error.strerror}") from None
    what = "redacted" if given.redact else "with all names: `--redact` gives them others"
    sys.stdout.write(f"{file}: {told / 1e6:,.1f} MB, {what}\n")
    return 0
