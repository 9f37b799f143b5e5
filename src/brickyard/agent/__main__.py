"""`python -m brickyard.agent`: `--config FILE` runs an instance's agent, and `--unit FILE` one that an engine has started;
`--probe` prints what this machine allows, as JSON."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

from brickyard.machine.locales import use_utf8

USAGE = "usage: python -m brickyard.agent --config FILE [--switchboard DESCRIPTOR] | --unit FILE [--with-parent] | --probe\n"


def main(arguments: list[str]) -> int:
    """Returns the exit code: 0, 1 after a failure, 2 for a wrong command line or configuration, 78 for a machine that cannot run
    an engine's unit."""
    use_utf8()
    match arguments:
        case ["--probe"]:
            from brickyard.machine import cgroups  # noqa: PLC0415 - each mode needs only its half of the code
            from brickyard.sandbox import launcher, network  # noqa: PLC0415 - each mode needs only its half of the code

            isolation, limits = launcher.probe(), cgroups.probe()
            found = {"isolation": isolation.kind, "reason": isolation.reason, "limits": limits}
            found["network"] = network.allowed(launcher.choose("auto", isolation)).text
            sys.stdout.write(json.dumps(found) + "\n")
            return 0
        case ["--config", file, *switchboard] if not switchboard or (switchboard[0] == "--switchboard" and len(switchboard) == 2):
            gc.disable()  # to look for garbage among what is imported takes a tenth of the time that it takes
            from brickyard.agent.config import ConfigError, load  # noqa: PLC0415 - as above
            from brickyard.agent.run import run  # noqa: PLC0415 - as above

            gc.freeze()
            gc.enable()
            try:
                config = load(Path(file))
            except ConfigError as error:
                sys.stderr.write(f"{error}\n")
                return 2
            return run(config, switchboard=int(switchboard[1]) if switchboard else -1)
        case ["--unit", file] | ["--unit", file, "--with-parent"]:
            from brickyard.agent import unit  # noqa: PLC0415 - as above
            from brickyard.sandbox import firstprocess  # noqa: PLC0415 - as above

            unit.hide()
            return firstprocess.guarded(lambda: unit.run(Path(file), with_parent=len(arguments) == 3))
    sys.stderr.write(USAGE)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
