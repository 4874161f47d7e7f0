"""job.yaml: every key typed, every mistake told in one line that names where it is."""

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwatch.errors import InputError
from gpuwatch.job.file import KEYS, read
from gpuwatch.job.given import from_argument, this_machine
from gpuwatch.job.template import template
from gpuwatch.job.types import Job, JobNode
from gpuwatch.verdict.thresholds import parse

WHOLE = r"""
job: llama-70b-sft
nodes:
  - gpu[001-002]
  - {host: 10.0.0.7, name: gpu017, port: 2222, user: 'CORP\ann', python: /opt/py/bin/python3,
     pod: train/worker-0, container: main}
ssh: {user: ann, port: 22, jump: bastion, identity: /k/id, known_hosts: hosts, host_keys: accept-new,
      config: /etc/ssh/x, transport: command, command: [bin/reach, "{node}", "{agent}"]}
interval: 500ms
match: torchrun
env: {LD_LIBRARY_PATH: /opt/nvidia/lib, FLAG: on}
network: {interfaces: [eth0, "mlx5_*"], line_rate: {eth0: 25Gbit}}
storage: {paths: [/data, /ckpt]}
group: "rack(\\d+)"
progress: {node: gpu001, log: /runs/x/train.log, step: 'step[ =](\d+)', tokens: 'tok/s (\d+)'}
baseline: recordings/good.gwz
cost: {gpu_hour: 2.10, currency: USD}
thresholds: {retransmit: 0.1%, gpu_busy: 80%}
preflight: {all_reduce: /opt/nccl-tests/build/all_reduce_perf, modules: [nccl]}
record: {dir: out, max_size: 5GB, keep: 7d}
alerts: {bell: true, exec: ./page-me.sh}
"""


def written(folder: Path, text: str | bytes) -> Path:
    file = folder / "job.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def refusal(folder: Path, text: str | bytes) -> str:
    with pytest.raises(InputError) as error:
        read(written(folder, text), parse)
    told = str(error.value)
    assert "\n" not in told
    assert len(told) < 900 + len(str(folder))
    return told.removeprefix(f"{folder}/")


def test_every_key_is_read_and_typed(tmp_path: Path) -> None:
    job = read(written(tmp_path, WHOLE), parse)
    assert set(KEYS) - {"hostfile", "slurm"} == {
        line.partition(":")[0] for line in WHOLE.splitlines() if line and line[0] not in " -"
    }
    assert job.nodes == (
        JobNode(name="gpu001", host="gpu001"),
        JobNode(name="gpu002", host="gpu002"),
        JobNode(
            name="gpu017",
            host="10.0.0.7",
            port=2222,
            user=r"CORP\ann",
            python="/opt/py/bin/python3",
            pod="train/worker-0",
            container="main",
        ),
    )
    assert job.interval_s == 0.5
    assert job.env == {"LD_LIBRARY_PATH": "/opt/nvidia/lib", "FLAG": "on"}
    assert job.network.line_rate == {"eth0": 25e9}
    assert job.ssh.known_hosts == tmp_path / "hosts"
    assert job.ssh.host_keys == "accept-new"
    assert job.ssh.command == (str(tmp_path / "bin/reach"), "{node}", "{agent}")
    assert job.group == r"rack(\d+)"
    assert job.cost is not None
    assert job.cost.gpu_hour == 2.1
    assert job.thresholds == {"retransmit": pytest.approx(0.001), "gpu_busy": 0.8}
    assert (job.record.max_size, job.record.keep) == (5e9, 7 * 86400)
    assert job.alerts.bell is True


def test_what_is_not_said_stays_unsaid(tmp_path: Path) -> None:
    job = read(written(tmp_path, "nodes: gpu1\nssh:\ncost:\n"), parse)
    known = job.sha256
    assert job == Job(name="job", nodes=(JobNode(name="gpu1", host="gpu1"),), sha256=known)


@pytest.mark.parametrize(
    "quoted", [r"CORP\alice@gpu1", r"'CORP\alice@gpu1'", r'"CORP\\alice@gpu1"']
)
def test_a_domain_is_taken_literally_in_every_quotation(tmp_path: Path, quoted: str) -> None:
    job = read(written(tmp_path, f"nodes: {quoted}\n"), parse)
    assert job.nodes[0].user == r"CORP\alice"


def test_hosts_that_repeat_are_told_apart_by_port(tmp_path: Path) -> None:
    text = "nodes: ['127.0.0.1:2201', '127.0.0.1:2202', '[::1]:1', '[::1]:2', gpu1]\n"
    names = [node.name for node in read(written(tmp_path, text), parse).nodes]
    assert names == ["127.0.0.1:2201", "127.0.0.1:2202", "[::1]:1", "[::1]:2", "gpu1"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nodes: a\nshh: {}\n", "job.yaml:2: shh: unknown key; ssh is meant?; allowed: job, nodes"),
        ("nodes: a\nssh:\n  user: b\n  prot: 22\n", "job.yaml:4: ssh.prot: unknown key; port is meant?"),
        ("nodes: a\njob: b\nnodes: c\n", "job.yaml:3: nodes: this key is here twice; first on line 1"),
        ("nodes: a\ninterval: 1 parsec\n", "job.yaml:2: interval: '1 parsec' has no unit of: ms, s, m, h, d"),
        ("nodes: a\ninterval: 1\n", "job.yaml:2: interval: '1' has no unit of"),
        ("nodes: a\ninterval: 0s\n", "job.yaml:2: interval: 0s is not between 200ms and 1m"),
        ("nodes: a\ninterval: -1s\n", "job.yaml:2: interval: '-1s' is not a number"),
        ("nodes: a\nrecord: {max_size: 5Gb}\n", "job.yaml:2: record.max_size: '5Gb' has no unit of: kB"),
        ("nodes: a\ncost: {gpu_hour: nan}\n", "job.yaml:2: cost.gpu_hour: 'nan'"),
        ("nodes: a\ncost: {currency: USD}\n", "job.yaml:2: cost: needs the key gpu_hour"),
        ("nodes:\n- a\n- b\n- a\n", "job.yaml:4: nodes[2]: a is here twice; first on line 2"),
        ("nodes: a,a\n", "job.yaml:1: nodes: a is here twice"),
        ("nodes: gpu[1-3],gpu2\n", "job.yaml:1: nodes: gpu2 is here twice"),
        ("nodes:\n", "job.yaml:1: nodes: holds no node"),
        ("nodes: []\n", "job.yaml:1: nodes: holds no node"),
        ("nodes: ''\n", "job.yaml:1: nodes: one value is wanted, not nothing"),
        ("nodes: a!a\n", "job.yaml:1: nodes: the node set 'a!a' is empty"),
        ("nodes: '@racks'\n", "job.yaml:1: nodes: '@racks' is a group"),
        ("nodes: gpu[1-30000000]\n", "job.yaml:1: nodes: 'gpu[1-30000000]' is 30,000,000 nodes"),
        ("job: a\n", "job.yaml:1: names no nodes; one of these keys is needed: nodes, hostfile, slurm"),
        ("nodes: a\nhostfile: b\n", "job.yaml:2: hostfile: stands beside nodes"),
        ("nodes:\n- {port: 22}\n", "job.yaml:2: nodes[0]: needs the key host"),
        ("nodes:\n- {host: a, port: no}\n", "job.yaml:2: nodes[0].port: 'no' is no port"),
        ("nodes:\n- {host: 'a[1-2]', name: x}\n", "job.yaml:2: nodes[0]: one name for 2 hosts"),
        ("nodes: a\nssh: {transport: telnet}\n", "job.yaml:2: ssh.transport: 'telnet' is not one of: asyncssh"),
        ("nodes: a\nssh: {command: [x, y]}\n", "job.yaml:2: ssh.command: needs {agent} as one word of its own"),
        ("nodes: a\nssh: {transport: command, command: '{agent}'}\n", "job.yaml:2: ssh.command: needs {agent}"),
        ("nodes: a\nssh: {transport: command, command: [x, '{agent} {agent}']}\n", "needs {agent}"),
        ("nodes: a\nssh: {command: [x, '{agent}']}\n", "job.yaml:2: ssh.command: transport: command and command: [...] belong"),
        ("nodes: a\nssh:\n  transport: command\n", "job.yaml:3: ssh: transport: command and command: [...] belong"),
        ("nodes: a,b\nssh: {transport: command, command: [x, '{agent}']}\n", "ssh.command: there are 2 nodes, and {node} stands in no word"),
        ("nodes:\n- {host: a, pod: --kubeconfig=/tmp/x}\n", "job.yaml:2: nodes[0].pod: '--kubeconfig=/tmp/x' is no pod"),
        ("nodes:\n- {host: a, container: -c}\n", "job.yaml:2: nodes[0].container: '-c' is no container"),
        ("nodes: a\nssh: ann\n", "job.yaml:2: ssh: a mapping of keys to values is wanted, not a single value"),
        ("nodes: a\nmatch: '('\n", "job.yaml:2: match: '(' is no regular expression"),
        ("nodes: a\ngroup: rack\n", "job.yaml:2: group: 'rack' has 0 groups; 1 is wanted"),
        ("nodes: a\nenv: {'A B': c}\n", "job.yaml:2: env.A B: 'A B' is no name of an environment variable"),
        ("nodes: a\nenv:\n  A: $HOME\n", "job.yaml:3: env.A: '$HOME' cannot be passed on; allowed are letters"),
        ("nodes:\n- {host: a, python: /a b}\n", "job.yaml:2: nodes[0].python: '/a b' is not a plain path"),
        ("nodes: a\nstorage: {paths: data}\n", "job.yaml:2: storage.paths: 'data' is not an absolute path"),
        ("nodes: a\nthresholds: {speed: 1%}\n", "job.yaml:2: thresholds.speed: no threshold 'speed'; there are gpu_busy"),
        ("nodes: a\nthresholds:\n  retransmit: 1s\n", "job.yaml:3: thresholds.retransmit: retransmit takes 0 to 100 %, not '1s'"),
        ("nodes: a\nprogress: {node: b, log: /l, step: '(x)'}\n", "job.yaml:2: progress.node: 'b' is not one of"),
        ("nodes: a\nprogress:\n  node: a\n  log: /l\n  step: 'step (\\d+'\n", "job.yaml:5: progress.step: 'step (\\\\d+' is no regular"),
        ("nodes: a\nprogress: {node: a, log: /l, step: step}\n", "job.yaml:2: progress.step: 'step' has 0 groups; 1 is wanted"),
        ("nodes: a\nprogress: {node: a, log: /l, step: '(\\d+)'}\n", "progress.step: '(\\\\d+)' needs plain text beside its group"),
        ("nodes: a\nprogress: {node: a, log: l, step: '(x)'}\n", "job.yaml:2: progress.log: 'l' is not an absolute path"),
        ("nodes: a\nalerts: {bell: yes}\n", "job.yaml:2: alerts.bell: 'yes' is not one of: true, false"),
        ("nodes: &x a\njob: *x\n", "job.yaml:2: job: aliases (*) are not allowed"),
        ("nodes: !!python/name:os.system a\n", "job.yaml:1: nodes: tags (!) are not allowed"),
        ("nodes: a\n---\nnodes: b\n", "job.yaml:2: a second document starts here"),
        ("nodes: [a\n", "job.yaml:2: is not YAML:"),
        ("nodes: a\n\tb: c\n", "job.yaml:2: is not YAML:"),
        ("hello\n", "job.yaml:1: a mapping of keys to values is wanted, not a single value"),
        ("", "job.yaml: is empty"),
        ("# nothing\n", "job.yaml: is empty"),
        (b"nodes: a\njob: \xff\n", "job.yaml:2: is not UTF-8 text"),
        (b"nodes: a\x00b\n", "job.yaml"),
        ('nodes: a\njob: "\\e[31m"\n', "job.yaml:2: job: holds a control character"),
        ("nodes: " + "[" * 900_000, "job.yaml:1: "),
        ("a" * 1_000_001, "job.yaml: is longer than 1 MB"),
    ],
)  # fmt: skip
def test_each_mistake_names_its_place(tmp_path: Path, text: str | bytes, told: str) -> None:
    begin = time.process_time()
    assert told in refusal(tmp_path, text)
    assert time.process_time() - begin < 2


def test_an_alias_bomb_is_refused_at_its_first_alias(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    assert "job.yaml:2: a1[0]: aliases (*) are not allowed" in refusal(tmp_path, "\n".join(lines))


def test_no_file_and_no_plain_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: no such file"):
        read(tmp_path / "none.yaml", parse)
    with pytest.raises(InputError, match="is a directory"):
        read(tmp_path, parse)
    with pytest.raises(InputError, match="longer than 1 MB"):
        read(Path("/dev/zero"), parse)


def test_a_hostfile_is_beside_the_job_file(tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text(
        "# ours\ngpu1 slots=8\n\nann@gpu[2-3] slots=8 max_slots=8\ngpu1 slots=8\n"
    )
    job = read(written(tmp_path, "hostfile: hosts.txt\n"), parse)
    assert [(node.name, node.user) for node in job.nodes] == [
        ("gpu1", None),
        ("gpu2", "ann"),
        ("gpu3", "ann"),
    ]
    (tmp_path / "hosts.txt").write_text("gpu1\ngpu2 8\n")
    assert "hosts.txt:2: after the host" in refusal(tmp_path, "hostfile: hosts.txt\n")
    (tmp_path / "hosts.txt").write_text("gpu1\n@all\n")
    assert "hosts.txt:2: '@all' is a group" in refusal(tmp_path, "hostfile: hosts.txt\n")


def test_slurm_tells_the_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    squeue = tmp_path / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text(
        '#!/bin/sh\ncase "$*" in *--jobs=77) echo "gpu[001-002]" ;; *=78) echo "Invalid job id" >&2; exit 1 ;; *) echo down >&2; exit 1 ;; esac\n'
    )
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(squeue.parent), prepend=":")
    assert [n.name for n in read(written(tmp_path, "slurm: 77\n"), parse).nodes] == [
        "gpu001",
        "gpu002",
    ]
    assert "job.yaml:1: slurm: job 78 is not running on any node" in refusal(
        tmp_path, "slurm: 78\n"
    )
    assert "slurm: squeue does not tell of job 79: down" in refusal(tmp_path, "slurm: 79\n")
    assert "job.yaml:1: slurm: '--help' is no Slurm job id" in refusal(tmp_path, "slurm: --help\n")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "no squeue" in refusal(tmp_path, "slurm: 77\n")


def test_the_template_is_a_job_file_and_so_is_each_line_that_it_offers(tmp_path: Path) -> None:
    text = template(r"CORP\ann@gpu[001-016]:2222")
    job = read(written(tmp_path, text), parse)
    assert (len(job.nodes), job.nodes[0].user, job.name) == (16, r"CORP\ann", "gpu")
    for line in text.splitlines():
        if line.startswith("#") and not line.startswith("# "):
            read(written(tmp_path, text + line[1:] + "\n"), parse)


def test_the_command_line_is_a_file_or_a_node_set(tmp_path: Path) -> None:
    assert from_argument(str(written(tmp_path, "nodes: gpu1\n")), parse).nodes[0].name == "gpu1"
    assert [n.name for n in from_argument("gpu[1-2]", parse).nodes] == ["gpu1", "gpu2"]
    with pytest.raises(InputError, match=r"wrong\.yaml: no such file"):
        from_argument("wrong.yaml", parse)
    with pytest.raises(InputError, match="no such file, and as a node set"):
        from_argument("gpu[", parse)
    assert this_machine().ssh.transport == "local"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.binary(max_size=200) | st.text(st.sampled_from("nodes: a[]{}-\n\t'\"&*!#|>%@`"), max_size=80)
)
def test_any_bytes_are_a_job_or_one_line(tmp_path: Path, data: bytes | str) -> None:
    try:
        nodes, told = read(written(tmp_path, data), parse).nodes, ""
    except InputError as error:
        nodes, told = (), str(error)
    assert nodes or (told and "\n" not in told)
