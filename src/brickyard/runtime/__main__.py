"""`python -m brickyard.runtime`: what agents run to have a runtime on their machine, and servers to install and train one."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from brickyard.domain.runtimes import Runtime
from brickyard.machine.locales import use_utf8
from brickyard.runtime import catalogue, installer
from brickyard.runtime.background import Background, lowest_priority
from brickyard.runtime.installed import installed
from brickyard.runtime.layerwork import install_layers, require_layers
from brickyard.runtime.packages import NoRuntime, PackagesFailed, install_packages
from brickyard.runtime.progress import Report
from brickyard.runtime.training import NothingToTrain, TrainingFailed, train

TELL_EVERY_S = 2.0  # every line becomes a message from the node to the server


def main() -> int:
    """Returns exit code 0, or 1 after printing the reason as the last line."""
    use_utf8()
    parser = argparse.ArgumentParser(prog="python -m brickyard.runtime", description=__doc__)
    parser.add_argument("action", choices=["install", "train", "layers", "packages", "list", "remove"])
    parser.add_argument("key", nargs="?", help="runtime key, for example 17.3.x-scala2.13")
    parser.add_argument("--cache-dir", type=Path, required=True)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--training", action="store_true", help="with install: train it at once, too")
    parser.add_argument(
        "--background",
        type=int,
        default=0,
        metavar="PID",
        help="with train, layers and packages: while nothing else happens, and PID lives",
    )
    parser.add_argument(
        "--patient",
        action="store_true",
        help="with layers and packages: at the lowest priority, once no node starts on this machine",
    )
    parser.add_argument(
        "--name", action="append", default=[], help="with layers: one that a node waits for, in place of the usual ones"
    )
    options = parser.parse_args()
    if options.action == "list":
        for each in catalogue.rows():
            there = installed(each.environment, options.cache_dir) is not None
            _say(options.json, {"key": each.key, "name": each.name, "installed": there}, f"{each.key}  {each.name}")
        return 0
    runtime = catalogue.find(options.key or "")
    if runtime is None:
        return _fail(options.json, catalogue.unknown(options.key or ""), "INVALID_ARGUMENT")
    if options.action == "remove":
        installer.remove(runtime.environment, cache_dir=options.cache_dir)
        return 0
    if options.action in _LATER:
        return _LATER[options.action](runtime, options)
    tell = _Teller(options.json)
    try:
        manifest = installer.install(runtime, cache_dir=options.cache_dir, progress=tell)
    except installer.InstallError as error:
        return _fail(options.json, str(error), "SPARK_IMAGE_DOWNLOAD_FAILURE")
    if options.training:
        try:
            trained = train(runtime.environment, _subject(runtime), cache_dir=options.cache_dir, progress=tell)
            manifest = msgspec.structs.replace(trained, classes=manifest.classes)
        except (TrainingFailed, NothingToTrain) as error:
            text = f"Going on without class-data archives, so starts are slower: {error}"
            _say(options.json, {"message": text}, text)
    _say(options.json, {"manifest": msgspec.to_builtins(manifest)}, f"{runtime.key} is installed in {manifest.home}")
    return 0


def _train(runtime: Runtime, options: argparse.Namespace) -> int:
    background = None
    if options.background:
        lowest_priority()
        _end_with(options.background)
        background = Background(options.cache_dir)
    try:
        train(
            runtime.environment,
            _subject(runtime),
            cache_dir=options.cache_dir,
            progress=_Teller(options.json),
            background=background,
        )
    except NothingToTrain:
        return _fail(options.json, f"{runtime.key} is not installed.", "INVALID_ARGUMENT")
    except TrainingFailed as error:
        return _fail(options.json, str(error), "INTERNAL_ERROR")
    return 0


def _layers(runtime: Runtime, options: argparse.Namespace) -> int:
    try:
        if options.name:
            problems = require_layers(
                runtime.environment,
                cache_dir=options.cache_dir,
                names=options.name,
                progress=lambda text: _say(options.json, {"message": text}, text),
            )
        else:
            problems = install_layers(runtime.environment, cache_dir=options.cache_dir, wait=_patience(options))
    except NoRuntime:
        return _fail(options.json, f"{runtime.key} is not installed.", "INVALID_ARGUMENT")
    return _fail(options.json, " ".join(problems), "SPARK_IMAGE_DOWNLOAD_FAILURE") if problems else 0


def _packages(runtime: Runtime, options: argparse.Namespace) -> int:
    try:
        install_packages(runtime.environment, cache_dir=options.cache_dir, wait=_patience(options))
    except NoRuntime:
        return _fail(options.json, f"{runtime.key} is not installed.", "INVALID_ARGUMENT")
    except PackagesFailed as error:
        return _fail(options.json, f"the packages of {runtime.key} cannot be installed: {error}", "INTERNAL_ERROR")
    return 0


_LATER = {"train": _train, "layers": _layers, "packages": _packages}


def _patience(options: argparse.Namespace) -> Callable[[Callable[[], None]], None] | None:
    """Returns what waits for the machine to be idle, if this is work in the background."""
    if options.background:
        _end_with(options.background)
    if not options.background and not options.patient:
        return None
    lowest_priority()
    return Background(options.cache_dir).wait_for_a_while


def _end_with(parent: int) -> None:
    """Has this process ended when its parent does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)


def _subject(runtime: Runtime) -> str:
    return f"Spark {runtime.spark_version}"


class _Teller:
    """Prints progress as lines: every step and every note. As JSON, also how far a step is, since readers of that show only
    one line."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._head = ""
        self._told = 0.0

    def __call__(self, report: Report) -> None:
        now = time.monotonic()
        if report.head != self._head or (self._as_json and now - self._told >= TELL_EVERY_S):
            self._head, self._told = report.head, now
            _say(self._as_json, {"message": report.text}, report.head)
        if report.note:
            _say(self._as_json, {"message": report.note}, report.note)


def _say(as_json: bool, document: dict[str, object], text: str) -> None:
    sys.stdout.write((json.dumps(document) if as_json else text) + "\n")
    sys.stdout.flush()


def _fail(as_json: bool, message: str, code: str) -> int:
    if as_json:
        _say(True, {"error": {"message": message, "code": code}}, "")
    else:
        sys.stderr.write(message + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
