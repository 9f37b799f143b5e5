"""A Python session: reads source text as JSON strings, one per line, and runs them all in one namespace.

Also run as a file, by Pythons that know nothing of the tests.
"""

import contextlib
import io
import json
import sys
import traceback


def main() -> None:
    space = {"__name__": "__main__"}
    for line in sys.stdin:
        shown, error = io.StringIO(), ""
        try:
            with contextlib.redirect_stdout(shown):
                exec(compile(json.loads(line), "snippet", "exec"), space)  # noqa: S102 - that is what it is for
        except BaseException:
            error = traceback.format_exc()
        print(json.dumps({"shown": shown.getvalue(), "error": error}), flush=True)


if __name__ == "__main__":
    main()
