"""What a host asks a person is asked before the screen starts, and then never again."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from debian import needs
from gpuwatch.transport.bootstrap import new_marker
from gpuwatch.transport.link import LinkError
from gpuwatch.transport.node import Node, Ssh
from gpuwatch.transport.questions import Questions, text_of
from gpuwatch.transport.ssh import Dialer
from sshd import NEEDS_SSHD, Sshd, free_port

pytestmark = [*NEEDS_SSHD, needs("ssh", "openssh-client")]
Dial = Callable[[Node], Any]
Start = Callable[..., Sshd]
Lay = Callable[..., Path]


class Person:
    """Answers what is asked, in turn, and remembers what it was."""

    def __init__(self, *answers: str) -> None:
        self.asked: list[tuple[str, bool]] = []
        self._answers = iter(answers)

    def __call__(self, prompt: str, *, shown: bool) -> str:
        self.asked.append((prompt, shown))
        return next(self._answers, "")


@asynccontextmanager
async def prepared(person: Person, *nodes: Node) -> AsyncIterator[list[Any]]:
    """Ask the person before the screen starts; then open all nodes, and give what came of each."""
    dialer = Dialer()
    try:
        await dialer.prepare(nodes, person)
        asked = len(person.asked)
        outcomes: list[Any] = []
        for node in nodes:
            try:
                pipe = await dialer.open(node, new_marker(), lambda _: None)
                outcomes.append(pipe)
                await pipe.close()
            except LinkError as error:
                outcomes.append(error)
        yield outcomes
        assert len(person.asked) == asked, "nobody is asked once the screen has started"
    finally:
        await dialer.close()


def opened(outcomes: list[Any]) -> list[bool]:
    return [not isinstance(outcome, LinkError) for outcome in outcomes]


async def test_a_passphrase_is_asked_for_once_before_the_screen(usual: Sshd, lay: Lay) -> None:
    """Only for a key that the host would take, again if it was wrong, and for all nodes."""
    other = lay("id_other", lock="other")
    locked = lay("id_locked", asyncssh.read_private_key(str(usual.identity)), lock="secret")
    config = other.with_name("config")
    config.write_text(f"IdentityFile {other}\nIdentityFile {locked}\n")
    nodes = [usual.node(name, identity=None, config=config) for name in "abc"]
    person = Person("wrong", "secret")
    async with prepared(person, *nodes) as outcomes:
        assert opened(outcomes) == [True, True, True]
    assert person.asked == [(f"Passphrase for {locked}: ", False)] * 2


async def test_a_password_is_asked_for_once_and_serves_all_nodes(
    sshd: Start, dial: Dial, lay: Lay
) -> None:
    server = sshd(user="ann", password="correct horse")
    nodes = [server.node(name, identity=lay("id_stranger")) for name in "abc"]
    with pytest.raises(LinkError) as caught:
        await dial(nodes[0])
    assert caught.value.what.endswith("; the host also asks for password")
    assert caught.value.hint.startswith("start gpuwatch again in a terminal")
    person = Person("wrong", "correct horse")
    async with prepared(person, *nodes) as outcomes:
        assert opened(outcomes) == [True, True, True]
    assert person.asked == [("ann@127.0.0.1: password: ", False)] * 2
    log = server.log.read_text()
    assert (log.count("Failed password"), log.count("Accepted password")) == (1, 3)


@given(st.text(max_size=400), st.text(max_size=400))
@example("Password: ", "")
@example("(ann@gpu1) Password: ", "Your password expires in 3 days.")
@example("One-time password (OATH) for `ann': ", "")
@example("New password: ", "")
@example("Password + OTP: ", "")
@example("Verification code: ", "A long greeting.\n" * 20)
@example("Verification code: ", "Your password was right.")
def test_only_a_password_is_told_twice_and_no_prompt_steers_the_terminal(
    prompt: str, instructions: str
) -> None:
    person = Person("told", "told")
    questions = Questions()
    questions.ask = person
    text = text_of("ann@gpu1", instructions, [(prompt, False)], 0)
    for _ in range(2):
        assert questions.answer("ann@", prompt, text, shown=False, again=False) == "told"
    if "password" not in prompt.lower() or not {"one-time", "new", "otp"}.isdisjoint(
        prompt.lower().split()
    ):
        assert len(person.asked) == 2
    elif prompt.endswith("Password: "):
        assert len(person.asked) == 1
    for shown, _ in person.asked:
        assert all(line.isprintable() for line in shown.split("\n"))
        assert len(shown) < 3000
        assert "ann@gpu1: " in shown or prompt.count("\n") > 10


async def test_a_wrong_password_is_told_as_such(sshd: Start, lay: Lay) -> None:
    server = sshd(user="ann", password="correct horse")
    person = Person("a", "b", "c")
    async with prepared(person, server.node(identity=lay("id_stranger"))) as [outcome]:
        assert "what was answered was refused" in outcome.what
    assert len(person.asked) == 3
    async with prepared(Person(""), server.node(identity=lay("id_stranger"))) as [outcome]:
        assert outcome.what.endswith("; the host also asks for password")


async def test_s32_a_host_that_wants_a_key_and_more_asks_through_pam(sshd: Start) -> None:
    """A real sshd with PAM; it ends with a round that has no questions in it (S34)."""
    server = sshd(
        user="ann",
        password="correct horse",
        questions=True,
        options=[
            "AuthenticationMethods publickey,keyboard-interactive:pam",
            "PasswordAuthentication no",
        ],
    )
    person = Person("correct horse")
    async with prepared(person, server.node("a"), server.node("b")) as outcomes:
        assert opened(outcomes) == [True, True]
    assert person.asked == [("ann@127.0.0.1: Password: ", False)]


class Codes(asyncssh.SSHServer):
    """Asks for a code that is used up once it was told, then says that it was right."""

    codes: list[str]

    def begin_auth(self, username: str) -> bool:
        return True

    def kbdint_auth_supported(self) -> bool:
        return True

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> Any:
        self.right = False
        return "", "Two factors\x1b[2J\n1. by telephone", "", [("Verification code: ", True)]

    def validate_kbdint_response(self, username: str, responses: Any) -> Any:
        if self.right:
            return not responses
        if responses and responses[0] in self.codes:
            self.codes.remove(responses[0])
            self.right = True
            return "", "well done", "", []
        return False


async def test_s32_s34_a_code_is_asked_for_at_each_host_before_the_screen(
    tmp_path: Path,
) -> None:
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    Codes.codes = ["111", "222"]
    server = await asyncssh.listen("127.0.0.1", 0, server_factory=Codes, server_host_keys=[host_key],
                                   process_factory=lambda process: process.exit(0))  # fmt: skip
    port = server.get_port()
    known_hosts = tmp_path / "known"
    key = host_key.export_public_key("openssh").decode()
    known_hosts.write_text(f"[127.0.0.1]:{port} {key}")
    ssh = Ssh(known_hosts=known_hosts, config=Path("/dev/null"))
    nodes = [Node(name, "127.0.0.1", port, "ann", ssh=ssh) for name in "ab"]
    person = Person("111", "222")
    async with server:
        async with prepared(person, *nodes) as outcomes:
            assert opened(outcomes) == [True, True], outcomes
        prompt = "Two factors␛[2J\n1. by telephone\nann@127.0.0.1: Verification code: "
        assert person.asked == [(prompt, True)] * 2
        async with prepared(Person("wrong"), nodes[0]) as outcomes:
            assert "the host also asks for keyboard-interactive" in outcomes[0].what


async def test_a_bastion_asks_once_for_all_nodes_behind_it(sshd: Start) -> None:
    bastion, inner = sshd(user="ann", password="correct horse"), sshd()
    inner.admit(bastion)
    (bastion.folder / "authorized_keys").write_bytes(b"")
    nodes = [
        inner.node(
            name,
            jump=f"ann@127.0.0.1:{bastion.port}",
            identity=bastion.identity,
            known_hosts=bastion.known_hosts,
        )
        for name in "abc"
    ]
    person = Person("correct horse")
    async with prepared(person, *nodes) as outcomes:
        assert opened(outcomes) == [True, True, True]
    assert person.asked == [("ann@127.0.0.1: password: ", False)]
    assert bastion.logins() == 1


async def test_lines_of_known_hosts_that_are_not_understood_are_told(
    usual: Sshd, tmp_path: Path
) -> None:
    known = tmp_path / "known"
    known.write_text(f"rubbish\n{usual.known_hosts.read_text()}")
    dialer = Dialer()
    told = await dialer.prepare([usual.node(known_hosts=known)], Person())
    await dialer.close()
    assert told == [f"{known}:1: not understood, passed over"]


async def test_a_node_that_is_down_does_not_keep_the_screen_from_starting(usual: Sshd) -> None:
    person = Person()
    down = usual.node("down", port=free_port())
    async with prepared(person, down, usual.node("well"), usual.node("other")) as outcomes:
        assert opened(outcomes) == [False, True, True]
    assert person.asked == []
