"""job.yaml: its keys, how each is read, and the Job that comes out."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec.structs import asdict

from gpuwatch.errors import InputError
from gpuwatch.job import hostfile, nodeset, slurm, units
from gpuwatch.job.document import Item, read_text, tree
from gpuwatch.job.nodeset import Address
from gpuwatch.job.readers import (
    Reader,
    amount,
    choice,
    expression,
    fields,
    file_path,
    listed,
    mapped,
    node_path,
    node_python,
    of,
    pattern,
    program,
    switch,
    variables,
    within,
    word,
)  # fmt: skip
from gpuwatch.job.types import (
    Alerts,
    Cost,
    Job,
    JobNode,
    Network,
    Preflight,
    Progress,
    Record,
    Ssh,
    Storage,
)  # fmt: skip
from gpuwatch.transport.node import NODE_WORD

__all__ = ["KEYS", "ParseThreshold", "read"]

ParseThreshold = Callable[[str, str], float]
"""Turns a threshold's name and text into its value; ValueError says what the judge allows."""

Draft = tuple[Item, dict[str, Any]]
"""Where a node is named, and what is known of it so far."""

_Readers = Mapping[str, Reader[Any]]

_NODE: _Readers = MappingProxyType({
    "name": word,
    "host": of(nodeset.expand),
    "port": of(nodeset.port_number),
    "user": of(nodeset.user_name),
    "python": node_python,
    "pod": of(nodeset.pod_name),
    "container": of(nodeset.container_name),
})  # fmt: skip
_SSH: _Readers = MappingProxyType({
    "user": of(nodeset.user_name),
    "port": of(nodeset.port_number),
    "jump": word,
    "identity": file_path,
    "config": file_path,
    "known_hosts": file_path,
    "host_keys": choice("strict", "accept-new"),
    "transport": choice("asyncssh", "openssh", "srun", "kubectl", "command"),
    "command": program,
})  # fmt: skip
_NETWORK: _Readers = MappingProxyType({
    "interfaces": listed(word),
    "line_rate": mapped(amount(units.BIT_RATES, 1e6, 1e14, "between 1Mbit and 100Tbit")),
})  # fmt: skip
_PROGRESS: _Readers = MappingProxyType(
    {"node": word, "log": node_path, "step": expression, "tokens": expression}
)
_COST: _Readers = MappingProxyType({
    "gpu_hour": within(units.number, 0, 1e6, "between 0 and 1000000"),
    "currency": word,
})  # fmt: skip
_RECORD: _Readers = MappingProxyType({
    "dir": file_path,
    "max_size": amount(units.BYTES, 1e7, 1e15, "between 10MB and 1000TB"),
    "keep": amount(units.SECONDS, 60, 1e9, "at least 1m"),
})  # fmt: skip


def _structured(
    kind: Callable[..., Any], readers: _Readers, needed: tuple[str, ...] = ()
) -> Reader[Any]:
    return lambda item: kind(**fields(item, readers, needed))


KEYS: _Readers = MappingProxyType({
    "job": word,
    "nodes": lambda item: [draft for part in item.items() for draft in _drafts(part)],
    "hostfile": lambda item: _addressed(item, hostfile.read(file_path(item))),
    "slurm": lambda item: _addressed(item, of(slurm.nodes)(item)),
    "ssh": _structured(Ssh, _SSH),
    "interval": amount(units.SECONDS, 0.2, 60, "between 200ms and 1m"),
    "match": pattern(None),
    "env": variables,
    "network": _structured(Network, _NETWORK),
    "storage": _structured(Storage, {"paths": listed(node_path)}),
    "group": pattern(1),
    "progress": _structured(Progress, _PROGRESS, ("node", "log", "step")),
    "baseline": file_path,
    "cost": _structured(Cost, _COST, ("gpu_hour",)),
    "thresholds": mapped(lambda item: item),
    "preflight": _structured(Preflight, {"all_reduce": node_path, "modules": listed(word)}),
    "record": _structured(Record, _RECORD),
    "alerts": _structured(Alerts, {"bell": switch, "exec": file_path}),
})  # fmt: skip
"""Every key of a job file and its reader."""

_SOURCES = ("nodes", "hostfile", "slurm")


def read(file: Path, parse_threshold: ParseThreshold) -> Job:
    """Read and check a job file.

    Args:
        file: of at most 1 MB; relative paths in it are beside it.
        parse_threshold: what the judge makes of a threshold.

    Raises:
        InputError: the first thing that is wrong, with file, line, key and what is allowed.
    """
    text = read_text(file)
    root = tree(file, text)
    table = root.table()
    source = _the_one_source(root)
    values = fields(root, KEYS)
    if not values.get(source):
        raise table[source].wrong("holds no node")
    values["nodes"] = named(values[source])
    values["sha256"] = sha256(text.encode()).hexdigest()
    if source == "slurm":
        values["slurm_id"] = table[source].text()
    if "ssh" in values:
        _check_command(table["ssh"], values["ssh"], len(values["nodes"]))
    values["name"] = values.get("job", file.stem)
    thresholds = values.get("thresholds", {})
    values["thresholds"] = {n: _threshold(n, i, parse_threshold) for n, i in thresholds.items()}
    if "interval" in values:
        values["interval_s"] = values["interval"]
    progress = values.get("progress")
    if progress and progress.node not in {node.name for node in values["nodes"]}:
        raise table["progress"].table()["node"].wrong(f"{progress.node!r} is not one of the nodes")
    return Job(**{name: values[name] for name in Job.__struct_fields__ if name in values})


def named(drafts: Sequence[Draft]) -> tuple[JobNode, ...]:
    """Return the nodes under names that are unique: the host, with its port where hosts repeat.

    Raises:
        InputError: two nodes are the same.
    """
    hosts = Counter(draft["host"] for _, draft in drafts)
    lines: dict[str, int] = {}
    nodes = []
    for item, draft in drafts:
        port = draft.get("port")
        whole = f"[{draft['host']}]" if ":" in draft["host"] else draft["host"]
        name = draft["host"] if hosts[draft["host"]] == 1 or not port else f"{whole}:{port}"
        facts: dict[str, Any] = {"name": name} | draft
        node = JobNode(**facts)
        if node.name in lines:
            first = lines[node.name]
            where = "" if first == item.line else f"; first on line {first}"
            raise item.wrong(f"{node.name} is here twice{where}")
        lines[node.name] = item.line
        nodes.append(node)
    if len(nodes) > nodeset.MAX_NODES:
        raise InputError(f"{len(nodes):,} nodes; at most {nodeset.MAX_NODES:,} are watched")
    return tuple(nodes)


def _the_one_source(root: Item) -> str:
    given = [name for name in _SOURCES if name in root.table()]
    if not given:
        raise root.wrong(f"names no nodes; one of these keys is needed: {', '.join(_SOURCES)}")
    if len(given) > 1:
        raise root.table()[given[1]].wrong(f"stands beside {given[0]}; one of the two is wanted")
    return given[0]


def _check_command(item: Item, ssh: Ssh, nodes: int) -> None:
    """Refuse a command that is not used, lacks one, or reaches one node under many names."""
    command = item.table().get("command", item)
    if (ssh.transport == "command") != bool(ssh.command):
        raise command.wrong("transport: command and command: [...] belong together")
    if ssh.command and nodes > 1 and not any(NODE_WORD in word for word in ssh.command):
        raise command.wrong(f"there are {nodes} nodes, and {NODE_WORD} stands in no word")


def _threshold(name: str, item: Item, parse: ParseThreshold) -> float:
    try:
        return parse(name, word(item))
    except ValueError as error:
        raise item.wrong(str(error)) from None


def _drafts(item: Item) -> Sequence[Draft]:
    """Read one entry of the list of nodes: a node set, or a mapping."""
    if not isinstance(item.value, dict):
        return _addressed(item, of(nodeset.expand)(item))
    given = fields(item, _NODE, ("host",))
    addresses = given.pop("host", ())
    if "name" in given and len(addresses) > 1:
        raise item.wrong(f"one name for {len(addresses)} hosts")
    return [(item, draft | given) for _, draft in _addressed(item, addresses)]


def _addressed(item: Item, addresses: Sequence[Address]) -> list[Draft]:
    return [(item, asdict(address)) for address in addresses]
