"""Encryption of secrets at rest.

Each value is encrypted with a key of its own (AES-256-GCM), and that key with the workspace's: changing the workspace's key
rewrites the small keys only. Both are bound to the secret's scope and key, so a row cannot be passed off as another one.

The workspace's key is derived from the first entry of the setting `encryption_key`, or else of the file secrets.key in the
storage. The entries after it only decrypt: they are there while the key is being changed. The file is read each time, so that
all servers follow a change at once.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from brickyard.domain.secrets import Sealed, SecretName, key_entries
from brickyard.storage.private import create_private, write_private

_NONCE = 12


class VaultError(Exception):
    """The key is missing, damaged or another one. The message is a sentence that says what to do."""


class Key(NamedTuple):
    """One key of the workspace. `id` may be shown and stored; it says nothing about the key."""

    id: str
    entry: str  # as in the file
    cipher: AESGCM


class Vault:
    """Encrypts and decrypts values. `path`: the key file. `given`: keys that replace the file."""

    def __init__(self, *, path: Path, given: str = "") -> None:
        self._path = path
        self._given = given

    @property
    def _where(self) -> str:
        return "the setting encryption_key" if self._given else str(self._path)

    def seal(self, name: SecretName, value: bytes, *, used: set[str]) -> Sealed:
        """Encrypts a value. `used`: the ids of the keys of all secrets that there are; where there are none, a key is made.
        Raises VaultError."""
        if not used and not self._given:
            self._create()
        key = self._ring(used)[0]
        own = AESGCM.generate_key(bit_length=256)
        return Sealed(
            key_id=key.id, wrapped=_encrypt(key.cipher, own, name, "key"), data=_encrypt(AESGCM(own), value, name, "value")
        )

    def open(self, name: SecretName, sealed: Sealed) -> bytes:
        """Decrypts a value. Raises VaultError."""
        own = self._unwrapped(name, sealed, self._ring({sealed.key_id}))
        return _decrypt(AESGCM(own), sealed.data, name, "value")

    def rewrap(self, name: SecretName, sealed: Sealed) -> Sealed:
        """The same value under the current key. Raises VaultError."""
        ring = self._ring({sealed.key_id})
        own = self._unwrapped(name, sealed, ring)
        return Sealed(key_id=ring[0].id, wrapped=_encrypt(ring[0].cipher, own, name, "key"), data=sealed.data)

    def trouble(self, used: set[str]) -> str:
        """Why secrets that were encrypted with these keys cannot be read; "" if they can."""
        try:
            if used:
                self._ring(used)
        except VaultError as error:
            return str(error)
        return ""

    def begin_rotation(self, used: set[str]) -> str:
        """Puts a new key before those of the file, or, where the keys are a setting, takes its first. Returns the id of the
        current key. Raises VaultError."""
        if not self._given:
            if not used:
                self._create()
            kept = [key for key in self._ring(used) if key.id in used]
            self._write([secrets.token_hex(32), *(key.entry for key in kept)])
        return self._ring(used)[0].id

    def end_rotation(self) -> None:
        """Removes all keys but the current one from the file. Raises VaultError."""
        if not self._given:
            self._write([self._ring(set())[0].entry])

    def current(self) -> str:
        """The id of the key that encrypts. Raises VaultError."""
        return self._ring(set())[0].id

    def _unwrapped(self, name: SecretName, sealed: Sealed, ring: list[Key]) -> bytes:
        key = next(key for key in ring if key.id == sealed.key_id)
        return _decrypt(key.cipher, sealed.wrapped, name, "key")

    def _ring(self, needed: set[str]) -> list[Key]:
        """The keys, the current one first. Raises VaultError unless all that are needed are there."""
        try:
            text = self._given or self._path.read_text()
        except FileNotFoundError:
            text = ""
        except (OSError, UnicodeDecodeError) as error:
            raise VaultError(f"{self._path} cannot be read: {error}. Run as the user who owns it.") from error
        try:
            ring = [_key(entry) for entry in key_entries(text)]
        except ValueError as error:
            raise VaultError(f"{self._where} is damaged: {error}. Restore it from a backup.") from error
        if lost := needed - {key.id for key in ring}:
            raise VaultError(
                f"secrets are encrypted with a key ({', '.join(sorted(lost))}) that is not in {self._where}. Restore that key "
                "from a backup; if it is lost, delete the scopes whose secrets cannot be read (docs/secrets.md)."
            )
        if not ring:
            raise VaultError(f"there is no key in {self._where}.")
        return ring

    def _create(self) -> None:
        try:
            create_private(self._path, secrets.token_hex(32) + "\n")
        except (OSError, UnicodeDecodeError) as error:
            raise VaultError(f"cannot use {self._path}: {error}. Check its owner and the disk.") from error

    def _write(self, keys: list[str]) -> None:
        try:
            write_private(self._path, "".join(f"{key}\n" for key in keys))
        except OSError as error:
            raise VaultError(f"cannot write {self._path}: {error}. Nothing has changed.") from error


def _key(entry: str) -> Key:
    secret = bytes.fromhex(entry)
    return Key(_derived(secret, "id", 8).hex(), entry, AESGCM(_derived(secret, "encryption", 32)))


def _derived(secret: bytes, purpose: str, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=f"brickyard secrets {purpose}".encode()).derive(secret)


def _encrypt(cipher: AESGCM, data: bytes, name: SecretName, what: str) -> bytes:
    nonce = os.urandom(_NONCE)
    return nonce + cipher.encrypt(nonce, data, _bound(name, what))


def _decrypt(cipher: AESGCM, data: bytes, name: SecretName, what: str) -> bytes:
    try:
        return cipher.decrypt(data[:_NONCE], data[_NONCE:], _bound(name, what))
    except (InvalidTag, ValueError) as error:
        raise VaultError(f"the stored value of secret {name} is damaged or belongs to another secret. Put it again.") from error


def _bound(name: SecretName, what: str) -> bytes:
    """What a ciphertext is bound to. No name can have a NUL."""
    return "\0".join(("brickyard secret 1", what, *name.folded)).encode()
