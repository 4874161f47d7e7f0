"""First on a node: take the bundle from stdin, import it from memory, run what it is for.

The viewer sends this file's text and calls `start`. It keeps to what Python 3.5 parses, so
that an interpreter which is too old says so in words. Nothing is written on the node.
"""

import sys
from typing import Any, Dict, Optional, Tuple

REFUSED = 3
"""Exit status after a refusal that stderr tells in one line."""


class Importer(object):
    """Imports modules from compressed sources in memory, before anything that the node has."""

    def __init__(self, modules: Dict[str, Tuple[bool, bytes]]) -> None:
        """Take the modules.

        Args:
            modules: name to (whether it is a package, source compressed by zlib).
        """
        self.modules = modules

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Optional[Any]:
        """Return the spec of a bundled module; None leaves it to the standard library."""
        if name not in self.modules:
            return None
        from importlib.machinery import ModuleSpec

        loader = self  # type: Any
        return ModuleSpec(name, loader, is_package=self.modules[name][0])

    def create_module(self, spec: Any) -> None:
        """Leave making the module to importlib."""

    def exec_module(self, module: Any) -> None:
        """Run a module's source, and let go of it: no module is imported twice."""
        import zlib

        name = module.__name__
        source = zlib.decompress(self.modules.pop(name)[1])
        code = compile(source, name, "exec", dont_inherit=True, optimize=2)
        exec(code, module.__dict__)  # noqa: S102 - what importlib.abc would do, for 3 MB more of a node


def refuse(text: str) -> None:
    """End with one line on stderr."""
    sys.stderr.write("gpuwatch: " + text + "\n")
    raise SystemExit(REFUSED)


def start(stream: Any) -> None:
    """Read the rest of the payload and run its main module; does not return.

    Args:
        stream: binary, buffered: one line of JSON (`size`, `crc`, `modules` as [name, is_package,
            size] in order, `main`, `config`), then the compressed sources, end to end.
    """
    if sys.version_info < (3, 6):
        refuse("python %d.%d at %s is older than 3.6" % (sys.version_info[:2] + (sys.executable,)))
    import gc
    import importlib
    import json
    import os
    import zlib

    header = json.loads(stream.readline().decode("ascii"))
    body = stream.read(header["size"])
    if len(body) != header["size"] or zlib.crc32(body) & 0xFFFFFFFF != header["crc"]:
        refuse("the payload arrived damaged")
    modules = {}
    begin = 0
    for name, is_package, size in header["modules"]:
        modules[name] = (is_package, body[begin : begin + size])
        begin += size
    importer = Importer(modules)  # type: Any
    sys.meta_path.insert(0, importer)
    os.chdir("/")
    gc.set_threshold(10000)  # a tick makes much that dies young, and hardly a cycle
    main = importlib.import_module(header["main"])  # type: Any
    main.run(header["config"])
