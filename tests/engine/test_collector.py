"""What is imported is left out of garbage collections, and cycles are found all the same."""

import subprocess
import sys

CHECK = """
import gc, weakref
from gpuwatch.engine.collector import settle

class Knot:
    def __init__(self):
        self.me = self

settle()
assert gc.get_freeze_count() > 1000
assert len(gc.get_objects()) < 1000
gone = weakref.ref(Knot())
assert gone() is not None
gc.collect()
assert gone() is None
assert gc.isenabled()
"""


def test_what_is_there_is_left_alone_and_what_comes_is_not() -> None:
    subprocess.run([sys.executable, "-c", CHECK], check=True)
