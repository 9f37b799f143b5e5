"""Cookies of our own pages. With https their names keep other hosts of the domain, and http, from setting them."""

from __future__ import annotations

NAME = "brickyard-session"
SIGN_IN = "brickyard-sign-in"  # how the names of cookies begin that a log-in with the identity provider needs


def read(header: str, *, https: bool, name: str = NAME) -> str:
    """A cookie's value from a Cookie header, or "". Other programs of the host may have set cookies with JSON or blanks, for
    which Python's SimpleCookie drops the whole header."""
    pairs = (pair.partition("=") for pair in header.split(";"))
    values = [value.strip() for key, _, value in pairs if key.strip() == _name(name, https=https)]
    return values[-1] if values else ""


def written(value: str, *, https: bool, name: str = NAME, max_age_s: int | None = None) -> str:
    """The Set-Cookie header. Without `max_age_s` it lasts until the browser closes; the session may end before."""
    lasts = "" if max_age_s is None else f"; Max-Age={max_age_s}"
    return f"{_name(name, https=https)}={value}; Path=/; HttpOnly; SameSite=Lax{lasts}" + ("; Secure" if https else "")


def cleared(*, https: bool, name: str = NAME) -> str:
    """The Set-Cookie header that removes it."""
    return written("", https=https, name=name, max_age_s=0)


def _name(name: str, *, https: bool) -> str:
    return f"__Host-{name}" if https else name
