"""How files are put together from parts: the plan, and sessions on the disk with kills at any point."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.access import Principal
from brickyard.domain.errors import InvalidParameterValue, InvalidState, QuotaExceeded, ResourceDoesNotExist
from brickyard.features.files.multipart import DONE_MS, IDLE_MS, SESSIONS, MultipartSessions, Session
from brickyard.features.files.parts import MOST_PARTS, Named, Part, assembly, check_named, fingerprint, slot
from brickyard.features.files.uploaddirectories import end_arriving
from brickyard.testing.clock import ManualClock

ME = Principal(user_name="me@example.com", user_id="1", is_admin=False)
TARGET = ("c", "s", "v", "f")
SIZES = st.lists(st.integers(0, 30), min_size=1, max_size=8)


@given(SIZES, st.integers(1, 30))
def test_a_plan_leaves_no_hole_and_copies_nothing_where_parts_have_one_size(sizes: list[int], slot_size: int) -> None:
    parts = [Part(n, size, b"", slot(n, size, slot_size)) for n, size in enumerate(sizes, 1)]
    plan = assembly(parts)
    at = 0
    for (part, target), size in zip(plan.parts, sizes, strict=True):
        assert (part.size, target) == (size, at)
        at += size
    assert plan.size == at
    if all(size == slot_size for size in sizes[:-1]) and 0 < sizes[-1] <= slot_size:
        assert plan.in_place
        assert all(part.offset is not None for part, _ in plan.parts)


@pytest.mark.parametrize("numbers", [[], [0], [2, 1], [1, 1], [MOST_PARTS + 1]])
def test_a_list_that_does_not_rise_is_refused(numbers: list[int]) -> None:
    with pytest.raises(InvalidParameterValue):
        check_named([Named(number) for number in numbers])


def test_a_list_is_known_again_however_its_etags_are_quoted() -> None:
    assert fingerprint([Named(1, '"ab"'), Named(2)]) == fingerprint([Named(1, "ab"), Named(2)])
    assert fingerprint([Named(1, "ab")]) != fingerprint([Named(1, "ac")])


class Place:
    """Sessions below a directory, and the file that their uploads are for."""

    def __init__(self, root: Path) -> None:
        self.clock = ManualClock()
        self.root, self.file = root, root / "file"
        self.sessions = self.server()

    def server(self) -> MultipartSessions:
        """Another server of the workspace."""
        return MultipartSessions(place=self.root / "multipart", clock=self.clock)

    def begin(self, *, overwrite: bool = True) -> str:
        return self.sessions.begin(owner=ME, parts=TARGET, overwrite=overwrite)

    def put(self, token: str, number: int, content: bytes) -> str:
        path, file = self.sessions.draft(token)
        try:
            os.write(file, content)
            part = Part(number, len(content), hashlib.blake2b(content, digest_size=16).digest(), None)
            self.sessions.take(token, path, file, part)
        finally:
            end_arriving(path, file)
        return part.etag

    def finish(self, token: str, named: Sequence[Named]) -> None:
        def settle(whole: Path, session: Session) -> None:
            if session.overwrite:
                whole.rename(self.file)
            else:
                os.link(whole, self.file)
                whole.unlink()

        self.sessions.finish(token, named, settle)

    def left(self, token: str) -> set[str]:
        directory = self.root / "multipart" / token
        return {path.name for path in directory.iterdir()} if directory.exists() else set()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@given(SIZES, st.data())
def test_the_file_is_its_parts_in_their_order(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], data: st.DataObject
) -> None:
    """In whatever order they come, some twice, some with other content than before, and some that are not named at the end."""
    place = Place(tmp_path_factory.mktemp("p"))
    token = place.begin()
    contents, named = {}, {}
    for number in data.draw(st.lists(st.sampled_from(range(1, len(sizes) + 1)), min_size=len(sizes), max_size=12)):
        contents[number] = bytes([data.draw(st.integers(0, 3))]) * data.draw(st.sampled_from([sizes[0], sizes[number - 1]]))
        named[number] = Named(number, place.put(token, number, contents[number]))
    chosen = sorted(data.draw(st.sets(st.sampled_from(sorted(named)), min_size=1)))
    place.finish(token, [named[number] for number in chosen])
    assert place.file.read_bytes() == b"".join(contents[number] for number in chosen)
    assert place.left(token) == {"about.json", "lock"}


class Killed(BaseException):
    """The process ended here."""


@contextlib.contextmanager
def kill_at(step: int) -> Iterator[Callable[[], bool]]:
    """Ends the process at that change of the disk; from then on it changes nothing. Yields whether it came to that."""
    with pytest.MonkeyPatch.context() as patch:
        reached = 0

        def mortal(work: Any) -> Any:
            def attempt(*arguments: Any, **options: Any) -> Any:
                nonlocal reached
                reached += 1
                if reached > step:
                    raise Killed
                return work(*arguments, **options)

            return attempt

        for name in ("rename", "replace", "unlink", "link", "pwrite", "truncate", "copy_file_range", "rmdir"):
            patch.setattr(os, name, mortal(getattr(os, name)))
        yield lambda: reached > step


def dies(step: int, work: Callable[[], object]) -> bool:
    with kill_at(step) as killed, contextlib.suppress(Killed):
        work()
    return killed()


CONTENTS = {1: b"1" * 10, 2: b"2" * 10, 3: b"3" * 4}


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 1, 3)])
@pytest.mark.parametrize("killed", [1, 2, 3])
def test_a_kill_while_a_part_arrives_loses_no_other(tmp_path: Path, order: tuple[int, ...], killed: int) -> None:
    step, goes_on = 0, True
    while goes_on:
        place = Place(tmp_path / str(step))
        token, named = place.begin(), []
        for number in order:
            put = functools.partial(place.put, token, number, CONTENTS[number])
            if number == killed:
                goes_on = dies(step, put)
            named.append(Named(number, put()))
        place.finish(token, sorted(named))
        assert place.file.read_bytes() == b"".join(CONTENTS[number] for number in (1, 2, 3)), step
        step += 1
    assert step > 2


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("numbers", [(1, 2, 3), (2, 3), (1, 3)], ids=["in place", "assembled", "without one"])
def test_a_kill_while_an_upload_is_completed_leaves_the_old_or_the_new_file(
    tmp_path: Path, numbers: tuple[int, ...], overwrite: bool
) -> None:
    step, goes_on, wanted = 0, True, b"".join(CONTENTS[number] for number in numbers)
    while goes_on:
        place = Place(tmp_path / str(step))
        if overwrite:
            place.root.mkdir(exist_ok=True)
            place.file.write_bytes(b"old")
        token = place.begin(overwrite=overwrite)
        for number, content in CONTENTS.items():
            place.put(token, number, content)
        named = [Named(number) for number in numbers]
        goes_on = dies(step, functools.partial(place.finish, token, named))
        if place.file.exists():
            assert place.file.read_bytes() in (wanted, b"old" if overwrite else wanted), step
        place.sessions = place.server()
        place.finish(token, named)
        assert place.file.read_bytes() == wanted, step
        assert place.file.stat().st_nlink == 1
        place.file.unlink()
        place.finish(token, named)
        assert not place.file.exists(), "a repeated call has no effect"
        step += 1
    assert step > 3


def test_a_completed_upload_takes_nothing_more(place: Place) -> None:
    token = place.begin()
    place.put(token, 1, b"x")
    with pytest.raises(InvalidParameterValue):
        place.finish(token, [Named(1), Named(2)])
    with pytest.raises(InvalidParameterValue):
        place.finish(token, [Named(1, '"00"')])
    place.finish(token, [Named(1)])
    with pytest.raises(InvalidState):
        place.put(token, 2, b"y")
    with pytest.raises(InvalidState):
        place.finish(token, [Named(1), Named(2)])
    place.sessions.abort(token)
    place.finish(token, [Named(1)])
    assert place.file.read_bytes() == b"x"


def test_an_upload_whose_placing_fails_can_be_completed_again(place: Place) -> None:
    token = place.begin()
    place.put(token, 1, b"x")

    def fails(_whole: Path, _session: Session) -> None:
        raise IsADirectoryError

    with pytest.raises(IsADirectoryError):
        place.sessions.finish(token, [Named(1)], fails)
    place.finish(token, [Named(1)])
    assert place.file.read_bytes() == b"x"


def test_sessions_end_when_they_are_aborted_or_idle(place: Place) -> None:
    aborted, idle, done = (place.begin() for _ in range(3))
    place.put(done, 1, b"x")
    place.finish(done, [Named(1)])
    place.sessions.abort(aborted)
    assert place.left(aborted) == set()
    with pytest.raises(ResourceDoesNotExist):
        place.put(aborted, 1, b"x")
    place.clock.advance(ms=DONE_MS + 1)
    place.sessions.sweep()
    assert (place.left(done), place.left(idle) != set()) == (set(), True)
    path, file = place.sessions.draft(idle)
    place.clock.advance(ms=IDLE_MS + 1)
    place.sessions.sweep()
    assert place.left(idle), "a part is arriving"
    end_arriving(path, file)
    with pytest.raises(ResourceDoesNotExist):
        place.sessions.find(idle, owner=ME, parts=TARGET)
    place.sessions.sweep()
    assert [path.name for path in (place.root / "multipart").iterdir()] == [".lock"]


def test_what_a_killed_server_was_receiving_is_swept(place: Place) -> None:
    token = place.begin()
    orphan = place.root / "multipart" / token / "in-1"
    half = place.root / "multipart" / ".new-1"
    orphan.write_bytes(b"x")
    half.mkdir()
    place.sessions.sweep()
    assert orphan.exists()
    assert half.exists()
    for path in (orphan, half):
        os.utime(path, (0, 0))
    place.sessions.sweep()
    assert not orphan.exists()
    assert not half.exists()
    assert place.left(token) == {"about.json", "data", "lock", "table"}


def test_a_user_has_a_share_of_the_sessions(place: Place) -> None:
    for _ in range(SESSIONS.share):
        place.begin()
    with pytest.raises(QuotaExceeded):
        place.begin()


@pytest.mark.parametrize("token", ["", ".", "..", "../x", "x" * 32, "A" * 32, "0" * 32])
def test_a_token_leads_nowhere_else(place: Place, token: str) -> None:
    with pytest.raises(ResourceDoesNotExist):
        place.sessions.find(token, owner=ME, parts=TARGET)


def test_a_session_belongs_to_its_user_and_path(place: Place) -> None:
    token = place.begin()
    assert place.sessions.find(token, owner=ME, parts=TARGET).parts == TARGET
    other = Principal(user_name="other@example.com", user_id="2", is_admin=True)
    for owner, parts in ((other, TARGET), (ME, (*TARGET, "x"))):
        with pytest.raises(ResourceDoesNotExist):
            place.sessions.find(token, owner=owner, parts=parts)
