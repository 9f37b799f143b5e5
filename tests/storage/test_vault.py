"""Encryption at rest: what is bound to what, and what becomes of a lost, wrong or damaged key."""

from __future__ import annotations

from pathlib import Path

import pytest

from brickyard.domain.secrets import SecretName
from brickyard.storage.vault import Vault, VaultError
from tests.support.golden import Golden

NAME = SecretName("scope", "key")
FIRST, SECOND = "1" * 64, "2" * 64


def vault(tmp_path: Path, given: str = "") -> Vault:
    return Vault(path=tmp_path / "secrets.key", given=given)


def test_a_value_comes_back_and_is_nowhere_in_what_is_stored(tmp_path: Path) -> None:
    sealed = vault(tmp_path).seal(NAME, b"hunter2 " * 100, used=set())
    assert vault(tmp_path).open(NAME, sealed) == b"hunter2 " * 100
    assert b"hunter2" not in sealed.data + sealed.wrapped
    assert (tmp_path / "secrets.key").stat().st_mode & 0o777 == 0o600
    again = vault(tmp_path).seal(NAME, b"hunter2 " * 100, used={sealed.key_id})
    assert again.data != sealed.data, "the same value twice must not be recognised"


def test_names_are_folded(tmp_path: Path) -> None:
    sealed = vault(tmp_path).seal(SecretName("Scope", "KEY"), b"v", used=set())
    assert vault(tmp_path).open(NAME, sealed) == b"v"


@pytest.mark.parametrize("other", [SecretName("scope", "other"), SecretName("other", "key"), SecretName("scopek", "ey")])
def test_a_row_cannot_be_passed_off_as_another(tmp_path: Path, other: SecretName, golden: Golden) -> None:
    sealed = vault(tmp_path).seal(NAME, b"v", used=set())
    with golden.refused(VaultError):
        vault(tmp_path).open(other, sealed)
    with golden.refused(VaultError):
        vault(tmp_path).rewrap(other, sealed)


def test_a_lost_key_is_told_and_no_other_is_made(tmp_path: Path) -> None:
    sealed = vault(tmp_path).seal(NAME, b"v", used=set())
    (tmp_path / "secrets.key").unlink()
    for call in (
        lambda: vault(tmp_path).open(NAME, sealed),
        lambda: vault(tmp_path).seal(NAME, b"w", used={sealed.key_id}),
        lambda: vault(tmp_path).begin_rotation({sealed.key_id}),
    ):
        with pytest.raises(VaultError, match=rf"{sealed.key_id}.*not in .*secrets\.key.*Restore"):
            call()
    assert not (tmp_path / "secrets.key").exists()
    assert "Restore" in vault(tmp_path).trouble({sealed.key_id})
    assert vault(tmp_path).trouble(set()) == "", "without secrets no key is needed"


@pytest.mark.parametrize("content", [b"nonsense", b"1" * 63, b"\xff\xfe", b"g" * 64])
def test_a_damaged_key_is_told_and_kept(tmp_path: Path, content: bytes) -> None:
    sealed = vault(tmp_path).seal(NAME, b"v", used=set())
    (tmp_path / "secrets.key").write_bytes(content)
    with pytest.raises(VaultError, match=r"secrets\.key"):
        vault(tmp_path).seal(NAME, b"w", used={sealed.key_id})
    with pytest.raises(VaultError, match=r"secrets\.key"):
        vault(tmp_path).seal(NAME, b"w", used=set())
    assert (tmp_path / "secrets.key").read_bytes() == content


def test_keys_of_the_setting_replace_the_file_and_later_ones_only_decrypt(tmp_path: Path, golden: Golden) -> None:
    old = vault(tmp_path, FIRST).seal(NAME, b"v", used=set())
    assert not (tmp_path / "secrets.key").exists()
    both = vault(tmp_path, f"{SECOND},{FIRST}")
    assert both.open(NAME, old) == b"v"
    new = both.rewrap(NAME, old)
    assert new.key_id != old.key_id
    assert vault(tmp_path, SECOND).open(NAME, new) == b"v"
    with golden.refused(VaultError, "encryption_key"):
        vault(tmp_path, FIRST).open(NAME, new)


def test_a_rotation_may_be_cut_off_anywhere(tmp_path: Path) -> None:
    first = vault(tmp_path).seal(NAME, b"v", used=set())
    current = vault(tmp_path).begin_rotation({first.key_id})
    second = vault(tmp_path).rewrap(NAME, first)
    assert second.key_id == current
    # Killed here: another one begins, and both older keys still decrypt.
    newest = vault(tmp_path).begin_rotation({first.key_id, second.key_id})
    assert newest != current
    assert [vault(tmp_path).open(NAME, each) for each in (first, second)] == [b"v", b"v"]
    third = vault(tmp_path).rewrap(NAME, second)
    vault(tmp_path).end_rotation()
    assert vault(tmp_path).open(NAME, third) == b"v"
    with pytest.raises(VaultError):
        vault(tmp_path).open(NAME, first)
