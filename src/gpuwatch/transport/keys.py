"""The keys that a login offers, in ssh's own order, and what is wrong with those that it cannot.

The order is that of ssh (sshconnect2.c, pubkey_prepare): keys of the agent that the configuration
names, the agent's others, keys in files; each with its certificates first. A server hears only so
many (MaxAuthTries, 6).
"""

import asyncio
import copy
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh
from asyncssh.public_key import CERT_TYPE_USER, SSHOpenSSHCertificate

from gpuwatch.model.text import sanitize
from gpuwatch.transport.settings import Settings

__all__ = ["KeyFiles", "Offer", "Passphrase"]

AGENT_S = 5.0
TRIES = 3

Passphrase = Callable[[str], str | None]
"""Asks a person for a passphrase; None: nobody can be asked, or would tell."""


@dataclass(slots=True)
class Offer:
    """What one login offers.

    Attributes:
        pairs: keys, in order.
        names: of the keys, for a person.
        agent_gone: socket of an agent that does not answer.
        expired: certificates that are over.
        locked: key files that want a passphrase and that the agent does not hold.
    """

    pairs: list[asyncssh.SSHKeyPair] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    agent_gone: str | None = None
    expired: list[Path] = field(default_factory=list)
    locked: list[Path] = field(default_factory=list)

    @property
    def state(self) -> bytes:
        """Other bytes whenever other keys or certificates are offered."""
        digest = hashlib.sha256()
        for pair in self.pairs:
            digest.update(pair.public_data)
        return digest.digest()


@dataclass(frozen=True, slots=True)
class _File:
    """A key file: its public half where that is known, its private half where it is not locked."""

    path: Path
    public: asyncssh.SSHKey | None
    private: asyncssh.SSHKey | None
    is_locked: bool


class KeyFiles:
    """Key files, each read once as long as it does not change; unlocked, they stay so."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[int, _File]] = {}

    @asynccontextmanager
    async def offer(self, settings: Settings, ask: Passphrase | None) -> AsyncIterator[Offer]:
        """Give what a login offers; the agent is there as long as the block lasts.

        Args:
            settings: of the login.
            ask: for the passphrase of a locked key, once the server would take that key.
        """
        offer = Offer()
        files = [file for path in settings.identities if (file := self._file(path))]
        certificates = list(_certificates(settings, files, offer))
        agent = await _connected(settings.agent, offer)
        try:
            held = await _held(agent, settings.agent, offer)
            self._fill(offer, settings, files, held, certificates, ask)
            yield offer
        finally:
            if agent:
                agent.close()

    def _fill(
        self,
        offer: Offer,
        settings: Settings,
        files: Sequence[_File],
        held: Sequence[asyncssh.SSHKeyPair],
        certificates: Sequence[asyncssh.SSHCertificate],
        ask: Passphrase | None,
    ) -> None:
        names = {file.public.public_data: file for file in files if file.public}
        ours = {pair.key_public_data for pair in held}
        order = list(names)
        mine = [pair for pair in held if pair.key_public_data in names]
        mine.sort(key=lambda pair: order.index(pair.key_public_data))
        others = [pair for pair in held if pair.key_public_data not in names]
        for pair in mine + ([] if settings.identities_only else others):
            comment = sanitize(pair.get_comment(errors="replace") or "a key", 60)
            _add(offer, pair, f"{comment} of the ssh-agent", certificates)
        for file in files:
            if file.public and file.public.public_data in ours:
                continue
            if file.private:
                pair = asyncssh.load_keypairs(file.private)[0]
                _add(offer, pair, file.path.name, certificates)
            elif file.is_locked:
                offer.locked.append(file.path)
                if ask and file.public:
                    unlocking = _Locked(file, ask, self._unlocked)
                    _add(offer, unlocking, file.path.name, certificates)

    def _file(self, path: Path) -> _File | None:
        try:
            changed_ns = path.stat().st_mtime_ns
            found = self._read.get(path)
            if found is None or found[0] != changed_ns:
                found = self._read[path] = changed_ns, _read(path)
        except OSError:
            return None
        return found[1]

    def _unlocked(self, file: _File, private: asyncssh.SSHKey) -> None:
        changed_ns, _ = self._read[file.path]
        self._read[file.path] = changed_ns, _File(file.path, file.public, private, is_locked=False)


class _Locked(asyncssh.SSHKeyPair):
    """A key that is unlocked only when a server would take it: it is asked with the public half."""

    def __init__(
        self, file: _File, ask: Passphrase, unlocked: Callable[[_File, asyncssh.SSHKey], None]
    ) -> None:
        key = file.public
        assert key is not None  # noqa: S101 - for the type checker: the caller has looked
        kinds = key.sig_algorithms
        super().__init__(key.algorithm, key.algorithm, kinds, kinds, key.public_data, None)
        self._file = file
        self._ask = ask
        self._unlocked = unlocked

    async def sign_async(self, data: bytes) -> bytes:
        """Sign, asking for the passphrase.

        Raises:
            ValueError: it was not told, or wrong each time; another key is tried then.
        """
        for _ in range(TRIES):
            passphrase = self._ask(f"Passphrase for {self._file.path}: ")
            if passphrase is None:
                break
            try:
                private = await asyncio.to_thread(
                    asyncssh.read_private_key, str(self._file.path), passphrase
                )
            except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError):
                continue
            self._unlocked(self._file, private)
            return private.sign(data, self.sig_algorithm)
        raise ValueError("not unlocked")


def _add(
    offer: Offer,
    pair: asyncssh.SSHKeyPair,
    name: str,
    certificates: Sequence[asyncssh.SSHCertificate],
) -> None:
    """Offer a key, with each of its certificates first."""
    for certificate in certificates:
        if certificate.key.public_data == pair.key_public_data:
            certified = copy.copy(pair)
            certified.set_certificate(certificate)
            offer.pairs.append(certified)
    offer.pairs.append(pair)
    offer.names.append(name)


def _certificates(
    settings: Settings, files: Sequence[_File], offer: Offer
) -> Iterator[asyncssh.SSHCertificate]:
    """Read the certificates that are configured and those beside keys, leaving out what is over."""
    beside = [Path(f"{str(file.path).removesuffix('.pub')}-cert.pub") for file in files]
    for path in dict.fromkeys([*settings.certificates, *beside]):
        try:
            certificate = asyncssh.read_certificate(str(path))
        except (OSError, asyncssh.KeyImportError):
            continue
        if not isinstance(certificate, SSHOpenSSHCertificate):
            continue
        try:
            certificate.validate(CERT_TYPE_USER, None)
        except ValueError:
            offer.expired.append(path)
        else:
            yield certificate


def _read(path: Path) -> _File:
    """Read a key file, private or public.

    Raises:
        OSError: it cannot be read.
    """
    try:
        private = asyncssh.read_private_key(str(path))
    except asyncssh.KeyImportError as error:
        is_locked = str(error).startswith("Passphrase")
        return _File(path, _public(path), None, is_locked)
    except asyncssh.KeyEncryptionError:
        return _File(path, _public(path), None, is_locked=True)
    return _File(path, private.convert_to_public(), private, is_locked=False)


def _public(path: Path) -> asyncssh.SSHKey | None:
    """Return the public half of a locked key, from the file itself or the one beside it."""
    for place in (path, Path(f"{path}.pub")):
        try:
            return asyncssh.read_public_key(str(place))
        except (OSError, asyncssh.KeyImportError):
            continue
    return None


async def _connected(path: str | None, offer: Offer) -> asyncssh.SSHAgentClient | None:
    if path is None:
        return None
    try:
        return await asyncssh.connect_agent(path)
    except OSError:
        offer.agent_gone = path
        return None


async def _held(
    agent: asyncssh.SSHAgentClient | None, path: str | None, offer: Offer
) -> Sequence[asyncssh.SSHKeyPair]:
    """Return the keys that an agent holds; one that hangs or talks nonsense counts as gone."""
    if agent is None:
        return ()
    try:
        async with asyncio.timeout(AGENT_S):
            return await agent.get_keys()
    except (TimeoutError, ValueError):
        offer.agent_gone = path
        return ()
