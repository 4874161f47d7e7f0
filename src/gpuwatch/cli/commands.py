"""Every command as a row: name, help, arguments, body. Parser, help and docs derive from it."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from gpuwatch import __version__
from gpuwatch.errors import InputError
from gpuwatch.job.units import GRADIENTS

__all__ = ["COMMANDS", "EXIT_CODES", "LIVE", "Argument", "Command", "parse", "usage"]

Body = Callable[[argparse.Namespace], int]


class Argument(NamedTuple):
    """One argument: its name or option, what it means, and what argparse is told besides."""

    name: str
    help: str
    more: Mapping[str, Any] = MappingProxyType({})


class Command(NamedTuple):
    """One command; the name of the bare `gpuwatch` is empty."""

    name: str
    help: str
    arguments: tuple[Argument, ...]
    body: str
    """Function that runs it, as `module:function`."""


_SWITCH = MappingProxyType({"action": "store_true"})
_JOB = (
    Argument(
        "job",
        "a job file (job.yaml) or a node set ('gpu[001-016]'); this machine if none is given",
        MappingProxyType({"nargs": "?", "metavar": "JOB"}),
    ),
    Argument("--slurm", "the nodes of a Slurm job", MappingProxyType({"metavar": "ID"})),
)
_GIVEN = "pairs (confirm_after=1m,lost=20) or a YAML file of them"
_JUDGED = (
    *_JOB,
    Argument("--thresholds", f"thresholds to judge by instead of the job file's: {_GIVEN}", MappingProxyType({"metavar": "GIVEN"})),
)  # fmt: skip
_RECORDING = Argument(
    "recording",
    "a recording: its folder, or a packed one (.gwz)",
    MappingProxyType({"metavar": "REC"}),
)
_JSON = Argument("--json", "one JSON document on stdout", _SWITCH)

LIVE = Command(
    "",
    "what a training job waits on, live: network, storage or CPU, and who is to blame",
    (
        *_JUDGED,
        Argument("--record", "record, also when this machine alone is watched", _SWITCH),
        Argument("--no-record", "do not record", _SWITCH),
        Argument("--version", "print the version", {"action": "version", "version": __version__}),
    ),
    "gpuwatch.cli.screen:live",
)
COMMANDS: Mapping[str, Command] = MappingProxyType({
    command.name: command
    for command in (
        LIVE,
        Command(
            "record",
            "record without a screen, until interrupted",
            (
                *_JUDGED,
                Argument("--out", "folder for the recording, new or empty", {"metavar": "DIR"}),
                Argument("--for", "stop after a time such as 10m", {"metavar": "TIME", "dest": "time"}),
            ),
            "gpuwatch.cli.record:record",
        ),
        Command(
            "replay",
            "play a recording in the same screen",
            (
                _RECORDING,
                Argument("--follow", "follow one that is still being written, as if live: many eyes, one set of agents", _SWITCH),
            ),
            "gpuwatch.cli.screen:replay",
        ),
        Command(
            "report",
            "who waited on what, how long, and what it cost",
            (
                _RECORDING,
                _JSON,
                Argument("--html", "write one page with pictures, to be read offline or printed", {"metavar": "FILE"}),
                Argument("--fail-on", "exit 1 where one of these was confirmed for the job, for example STORAGE,NETWORK/loss", {"metavar": "STATE[/CAUSE],.."}),
                Argument("--rejudge", "judge anew instead of telling what was shown", _SWITCH),
                Argument("--thresholds", f"with --rejudge: judge by other thresholds and tell what that changes: {_GIVEN}", {"metavar": "GIVEN"}),
                Argument("--from", "begin at an ISO time, or 10 minutes after the start (+10m) or before the end (--from=-10m)", {"metavar": "TIME", "dest": "begin"}),
                Argument("--to", "end there, likewise", {"metavar": "TIME", "dest": "end"}),
            ),
            "gpuwatch.cli.report:report",
        ),
        Command(
            "compare",
            "two recordings side by side: did the fix work",
            (
                Argument("before", "a recording's folder", {"metavar": "REC_A"}),
                Argument("after", "another's, of the same job after a change", {"metavar": "REC_B"}),
                _JSON,
            ),
            "gpuwatch.cli.compare:compare",
        ),
        Command(
            "verify",
            "whether a recording is whole; exit 1 where some of it cannot be read",
            (_RECORDING, _JSON),
            "gpuwatch.cli.verify:verify",
        ),
        Command(
            "pack",
            "one file of a recording, which plays as it is",
            (
                _RECORDING,
                Argument("file", "file to write, new: NAME.gwz", {"metavar": "FILE"}),
                Argument("--redact", "give hosts, users, paths, addresses and serials other names, the same everywhere", _SWITCH),
            ),
            "gpuwatch.cli.pack:pack",
        ),
        Command(
            "export",
            "a recording's tables as plain files",
            (
                _RECORDING,
                Argument("--format", "of the files", {"choices": ("csv", "parquet"), "required": True}),
                Argument("--rates", "rates a second in the place of counters", _SWITCH),
                Argument("--out", "folder for them, new or empty", {"metavar": "DIR", "required": True}),
            ),
            "gpuwatch.cli.export:export",
        ),
        Command("snapshot", "one look at a job, then exit", (*_JUDGED, _JSON), "gpuwatch.cli.snapshot:snapshot"),
        Command(
            "doctor",
            "how far each node is reached, what can be read there, and what to do about it",
            (*_JOB, _JSON),
            "gpuwatch.cli.doctor:doctor",
        ),
        Command(
            "preflight",
            "the checks before a job: links, hosts, round trips, bandwidth, storage; asks before it makes load",
            (
                *_JOB,
                _JSON,
                Argument("--only", "run these checks alone, as docs/preflight.md names them: links,bandwidth", {"metavar": "NAME,.."}),
                Argument("--quick", "shorter tests, of less data", _SWITCH),
                Argument("--thorough", "also where it takes more than 20 minutes", _SWITCH),
                Argument("--yes", "make the load without asking", _SWITCH),
                Argument("--busy-ok", "also where processes run on the GPUs", _SWITCH),
                Argument("--gpus", "GPUs of the whole job; those of the nodes without it", {"metavar": "N"}),
                Argument("--checkpoint-size", "of one checkpoint of the whole job, for example 140GB", {"metavar": "SIZE"}),
                Argument("--params", "parameters of the model, for example 70B: what a step exchanges", {"metavar": "N"}),
                Argument("--dtype", "of its gradients; bf16 without it", {"choices": tuple(GRADIENTS), "default": "bf16"}),
                Argument("--step-seconds", "seconds that a step computes", {"metavar": "S"}),
            ),
            "gpuwatch.cli.preflight:preflight",
        ),
        Command(
            "agent",
            "what is sent to a node and run there, source by source",
            (
                *_JOB,
                Argument("--print", "print it, as it is for the job's first node; sends nothing", {"action": "store_true", "required": True}),
            ),
            "gpuwatch.cli.agent:agent",
        ),
        Command(
            "demo",
            "a recorded fault in the screen: no GPU and no SSH needed",
            (Argument("scenario", "which one; net-loss without it", {"nargs": "?", "default": "net-loss", "metavar": "SCENARIO"}),),
            "gpuwatch.cli.screen:demo",
        ),
        Command(
            "init",
            "write a commented job file for a node set",
            (
                Argument("nodes", "for example 'ann@gpu[001-016]'", {"metavar": "NODESET"}),
                Argument("--out", "file to write, which must not exist; without it stdout", {"metavar": "FILE"}),
            ),
            "gpuwatch.cli.init:init",
        ),
    )
})  # fmt: skip
"""All commands by name, in the order of the help."""

EXIT_CODES: Mapping[int, str] = MappingProxyType({
    0: "fine",
    1: "a check found a fault",
    2: "wrong usage, or an input file that cannot be understood",
    3: "no node could be reached",
    4: "some nodes could not be reached",
    130: "interrupted",
})  # fmt: skip


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with the usage in one line, as every other error is said."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message, f"see {self.prog} --help")


def parse(words: Sequence[str]) -> tuple[Body, argparse.Namespace]:
    """Return the body of the command that the words name, and its arguments.

    Raises:
        InputError: usage that no command has.
    """
    named = words and words[0] in COMMANDS and words[0] != LIVE.name
    name, rest = (words[0], words[1:]) if named else (LIVE.name, words)
    command = COMMANDS[name]
    given = _parser(command).parse_args(rest)
    module, _, function = command.body.partition(":")
    body: Body = getattr(import_module(module), function)
    return body, given


def usage(command: Command) -> str:
    """Return how the command is called, in one line."""
    text = _parser(command).format_usage().removeprefix("usage: ")
    return " ".join(text.split())


def _parser(command: Command) -> argparse.ArgumentParser:
    live = command is LIVE
    parser = _Parser(
        prog=f"gpuwatch {command.name}".strip(),
        description=f"{command.help[0].upper()}{command.help[1:]}.",
        epilog=_epilog() if live else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for argument in command.arguments:
        more: dict[str, Any] = dict(argument.more)
        parser.add_argument(argument.name, help=argument.help, **more)
    parser.add_argument("--debug", help="a traceback on errors", action="store_true")
    return parser


def _epilog() -> str:
    rows = [f"  gpuwatch {c.name:10}{c.help}" for c in COMMANDS.values() if c.name]
    codes = ", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())
    return "\n".join(["commands (each has --help):", *rows, "", f"exit codes: {codes}"])
