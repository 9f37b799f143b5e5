"""The documentation site: `./dev docs`. See docs/dev/website.md."""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
from collections.abc import Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from brickyard import __version__
from brickyard.config.reference import with_tables
from website.build import ROOT, SiteError, add_version

TASKS = ("serve", "build", "tables")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="./dev docs",
        description="Serve the documentation as a site on this machine. build: write it to a directory. tables: write the tables "
        "of settings in docs/configuration.md.",
    )
    parser.add_argument("task", nargs="?", default="serve", choices=TASKS)
    parser.add_argument("--port", type=int, default=8000, help="for serve (default: 8000; 0: a free one)")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "docs", help="for build: the directory (default: dist/docs)")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.task == "tables":
            page = ROOT / "docs" / "configuration.md"
            page.write_text(with_tables(page.read_text()))
            return 0
        if chosen.task == "build":
            print(add_version(chosen.out, __version__))
            return 0
        with tempfile.TemporaryDirectory() as scratch:
            add_version(Path(scratch), __version__)
            with loopback(Path(scratch), chosen.port) as server:
                print(f"http://127.0.0.1:{server.server_port}/", flush=True)
                server.serve_forever()
    except (SiteError, OSError) as error:
        print(f"docs: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


def loopback(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of its files, for this machine alone."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """A line for each file of each page helps nobody."""

    return ThreadingHTTPServer(("127.0.0.1", port), functools.partial(Quiet, directory=os.fspath(folder)))


if __name__ == "__main__":
    sys.exit(main())
