"""What is sent to a node's interpreter, as sources in memory: the agent with our locked pynvml, or an errand."""

import functools
import importlib.resources
import importlib.util
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.abc import InspectLoader
from importlib.resources.abc import Traversable
from typing import Any

from gpuwatch import __version__
from gpuwatch.transport.node import Node

__all__ = ["Payload", "agent_config", "errand", "payload"]

AGENT = "gpuwatch.agent"
ERRAND = "gpuwatch.errand"
START = AGENT + ".start"
NVML = "pynvml"


@dataclass(frozen=True, slots=True)
class Payload:
    """The same for every node, but for the configuration.

    Attributes:
        starter: source that the start command reads first and runs.
        modules: (name, whether it is a package, bytes) of each source in the bundle, in order.
        bundle: the sources, each compressed alone, so that a node unpacks what it imports.
        main: the module whose `run` is called with the configuration.
    """

    starter: bytes
    modules: tuple[tuple[str, bool, int], ...]
    bundle: bytes
    main: str

    def message(self, config: dict[str, Any]) -> bytes:
        """Return all that goes to the interpreter's stdin before the first heartbeat.

        Args:
            config: what the main module's `run` takes.
        """
        header = {
            "size": len(self.bundle),
            "crc": zlib.crc32(self.bundle),
            "modules": self.modules,
            "main": self.main,
            "config": config,
        }
        parts = b"%d\n" % len(self.starter), self.starter, json.dumps(header).encode("ascii"), b"\n"
        return b"".join(parts) + self.bundle

    def sources(self) -> Iterator[tuple[str, bytes]]:
        """Yield name and source of all that is sent to run on a node, in order, as it is sent."""
        yield "the starter", self.starter
        at = 0
        for name, _, size in self.modules:
            yield name, zlib.decompress(self.bundle[at : at + size])
            at += size


def agent_config(node: Node, interval_s: float) -> dict[str, Any]:
    """Return what a node's agent is told at its start."""
    return {
        "interval_s": interval_s,
        "silence_s": node.silence_s,
        "match": node.match,
        "interfaces": list(node.interfaces),
        "line_rate": dict(node.line_rate_mbps),
        "paths": list(node.paths),
        "log": node.log,
        "log_texts": list(node.log_texts.items()),
        "version": __version__,
    }


@functools.cache
def payload() -> Payload:
    """Build the agent's payload from the installed package; takes some 50 ms, once."""
    return _packed(AGENT, (NVML, False, _module_source(NVML)))


@functools.cache
def errand() -> Payload:
    """Build the payload of the checks before a job."""
    return _packed(ERRAND)


def _packed(package: str, *more: tuple[str, bool, bytes]) -> Payload:
    starter = importlib.resources.files(AGENT).joinpath("start.py").read_bytes()
    sources = [("gpuwatch", True, b""), *_sources(package), *more]
    packed = [(name, is_package, zlib.compress(source, 9)) for name, is_package, source in sources]
    return Payload(
        starter=starter + b"\nstart(i)\n",
        modules=tuple((name, is_package, len(data)) for name, is_package, data in packed),
        bundle=b"".join(data for _, _, data in packed),
        main=package + ".main",
    )


def _sources(package: str) -> Iterator[tuple[str, bool, bytes]]:
    for name, is_package, file in _modules(package, importlib.resources.files(package)):
        if name != START:
            yield name, is_package, file.read_bytes()


def _modules(package: str, folder: Traversable) -> Iterator[tuple[str, bool, Traversable]]:
    """Walk the modules of a package, packages before what they hold, in a steady order."""
    yield package, True, folder / "__init__.py"
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        stem, _, suffix = entry.name.partition(".")
        if entry.is_dir() and (entry / "__init__.py").is_file():
            yield from _modules(f"{package}.{stem}", entry)
        elif suffix == "py" and stem != "__init__":
            yield f"{package}.{stem}", False, entry


def _module_source(name: str) -> bytes:
    spec = importlib.util.find_spec(name)
    source = None
    if spec is not None and isinstance(spec.loader, InspectLoader):
        source = spec.loader.get_source(name)
    if source is None:
        raise ModuleNotFoundError(f"no source of {name}", name=name)
    return source.encode("utf-8")
