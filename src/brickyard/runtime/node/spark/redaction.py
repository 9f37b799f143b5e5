"""What Spark hides in its UI and its event log. Pure."""

from __future__ import annotations

from collections.abc import Sequence

REDACTED_NAMES = "(?i)secret|password|token|access[.]?key"  # Spark's default
# Besides, what Hadoop takes for a secret (hadoop.security.sensitive-config-keys), and words of other libraries.
APART_NAMES = (
    f"{REDACTED_NAMES}|credential$|passphrase|passwd|account[.]?key|fs[.]azure[.]sas|encryption[.]key|(access|private|api)[._-]?key"
    "|sasl[.]jaas|basic[.]auth"
)
SHORTEST_SECRET = 4  # as in domain/redaction.py


def redact(values: dict[str, str], secrets: Sequence[str], *, apart: bool) -> None:
    """Has Spark hide the values of secrets in its UI and its event log, whatever setting or query holds them. The settings that
    say so contain the values, and are hidden by their names. `apart`: users are kept apart. More names count then, and sessions
    have none of what is hidden (connect/apart.py)."""
    if apart:
        theirs = values.get("spark.redaction.regex")
        values["spark.redaction.regex"] = f"{theirs}|{APART_NAMES}" if theirs else APART_NAMES
    patterns = "|".join(_quoted(secret) for secret in secrets if len(secret) >= SHORTEST_SECRET)
    if patterns:
        theirs = values.get("spark.redaction.regex") or REDACTED_NAMES
        values["spark.redaction.regex"] = f"{theirs}|spark[.]redaction|{patterns}"
        of_text = values.get("spark.redaction.string.regex")
        values["spark.redaction.string.regex"] = f"{of_text}|{patterns}" if of_text else patterns


def _quoted(text: str) -> str:
    """The text as a regular expression of Java."""
    return "".join(char if char.isalnum() else f"\\x{{{ord(char):x}}}" for char in text)
