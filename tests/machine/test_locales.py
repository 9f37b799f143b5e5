"""What is started in a locale without UTF-8 has UTF-8."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, subprocess, sys
from brickyard.machine.locales import use_utf8
use_utf8()
child = "import json, locale, sys; print(json.dumps([locale.nl_langinfo(locale.CODESET), sys.getfilesystemencoding()]))"
found = json.loads(subprocess.run([sys.executable, "-E", "-c", "import locale; locale.setlocale(locale.LC_ALL, '');" + child],
                                  capture_output=True, text=True, check=True).stdout)
print(json.dumps([found, os.environ.get("LC_ALL")]))
"""


@pytest.mark.parametrize(
    ("given", "after"),
    [
        ({"LC_ALL": "C"}, "C.UTF-8"),
        ({"LC_ALL": "POSIX", "LANG": "C.UTF-8"}, "C.UTF-8"),
        ({"LANG": "xx_XX.nonsense"}, "C.UTF-8"),
        ({"LANG": "C.UTF-8"}, None),
        ({"LC_ALL": "C.UTF-8"}, "C.UTF-8"),
    ],
)
def test_what_is_started_has_utf8(given: dict[str, str], after: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("LANG", "LC_ALL", "LC_CTYPE")} | given
    environment["PYTHONCOERCECLOCALE"] = "0"  # Python would set LC_CTYPE in some of these cases itself
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["UTF-8", "utf-8"], after]
