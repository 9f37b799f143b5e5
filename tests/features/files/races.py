"""Uploads to one path, side by side, of which nobody may see a part."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path


def contents_seen(target: Path, upload: Callable[[bytes], None], contents: Iterable[bytes]) -> set[bytes]:
    """Uploads all contents at once; returns what was at the path meanwhile."""
    done, seen = threading.Event(), set[bytes]()

    def watch() -> None:
        while not done.is_set():
            if target.exists():
                seen.add(target.read_bytes())

    watcher = threading.Thread(target=watch)
    threads = [threading.Thread(target=upload, args=(content,)) for content in contents]
    for thread in (watcher, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    watcher.join()
    return seen
