"""Skips tests that need a program which this machine lacks, naming the Debian package."""

import shutil

import pytest

REASON = "needs the Debian package"


def needs(program: str, package: str) -> pytest.MarkDecorator:
    """Return a mark that skips where `program` is not found; sbin is looked into too."""
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    return pytest.mark.skipif(found is None, reason=f"{REASON} {package}")
