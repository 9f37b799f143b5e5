"""Decodes requests: lenient where Databricks clients need it, otherwise with an error that names the field and the rule.

Lenient: numbers and booleans may be strings, unknown fields are ignored (unless the request's type forbids them), null counts as
absent (unless the field's type takes it), an empty body is an empty object.
Refused: values that no correct client sends and no store keeps (NaN, integers beyond 64 bits, NUL, lone surrogates, unlimited
nesting).
"""

from __future__ import annotations

import contextlib
import enum
import math
import re
import types
import typing
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from brickyard.domain.errors import ApiError, InvalidParameterValue, MalformedRequest

_PLAIN = bytes.maketrans(b"123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"000000000abcdefghijklmnopqrstuvwxyz")
_DIGITS = b"0" * 19
_LONG = re.compile(rb"(?:^|[^.0-9])[0-9]{19}")  # an integer that may be too large; a fraction may have any number of digits
_INT64 = 2**63
_SHOWN = 120  # characters of the client's value that a message repeats
_MAX_FIELDS = 1000
_REPEATED = 256  # queries of each operation that are remembered, decoded:
_SHORT = 256  # those of so many bytes, with what the path says. Clients poll with the same query all the time

_ERROR = re.compile(r"^(?P<what>.*?)(?: - at `(?P<key>key in )?\$(?P<path>.*)`)?$", re.DOTALL)
_EXPECTED = re.compile(r"^Expected `(?P<want>[^`]*)`, got `(?P<got>[^`]*)`$")
_MISSING = re.compile(r"^Object missing required field `(?P<name>.*)`$")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*)`$", re.DOTALL)
_ENUM = re.compile(r"^Invalid enum value (?P<value>.*)$", re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class Unread(typing.NamedTuple):
    """A field of a request that cannot be decoded. `field` is the path of what is wrong."""

    field: str
    message: str


class RequestDecoder:
    """Decodes requests of one type. Raises MalformedRequest and InvalidParameterValue. `document`: the field that takes a whole
    JSON body."""

    def __init__(self, request: type[msgspec.Struct], *, document: str = "") -> None:
        self._type = request
        self._document = document
        self._json = msgspec.json.Decoder(request, strict=False).decode
        self._keys = _query_keys(request)
        self._repeated = lru_cache(_REPEATED)(self._query)

    @property
    def fields(self) -> Iterable[str]:
        """The names that a query may hold."""
        return self._keys

    def body(self, raw: bytes, extra: Mapping[str, Any] | None = None) -> Any:
        """The request from a JSON body. `extra` are fields from elsewhere, which take precedence."""
        raw = raw or b"{}"
        try:
            try:
                request = self._json(raw) if not extra and not self._document else self._slow(raw, extra)
            except msgspec.ValidationError:
                request = self._slow(raw, extra)
            if _suspect(raw):
                _check(request, "")
        except msgspec.ValidationError as error:
            raise explain(error, self._type) from error
        except RecursionError as error:
            raise MalformedRequest("The request body is nested too deeply. Send an object with fewer levels.") from error
        except UnicodeDecodeError as error:
            raise MalformedRequest("The request body is not valid UTF-8. Encode it as UTF-8.") from error
        except msgspec.DecodeError as error:
            # The decoder reports half of a surrogate pair as the end of the data.
            reason = "a string holds half of a surrogate pair" if _SURROGATE.search(raw) else _sentence(error)
            raise MalformedRequest(f"The request body is not valid JSON: {reason}.") from error
        return request

    def tried(self, raw: bytes) -> tuple[Any, list[Unread]] | None:
        """The request without the fields that cannot be decoded, and these, if it is one with `validate_only` that can do
        without them."""
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ApiError):
            value = msgspec.json.decode(raw)
            if not isinstance(value, dict) or value.get("validate_only") not in (True, "true"):
                return None
            kinds = {field.encode_name: field.type for field in msgspec.structs.fields(self._type)}
            unread = [each for key, item in value.items() if key in kinds and (each := self._unread(key, item, kinds[key]))]
            tops = {re.split(r"[.\[]", each.field, maxsplit=1)[0] for each in unread}
            return self.body(msgspec.json.encode({key: item for key, item in value.items() if key not in tops})), unread
        return None

    def _unread(self, key: str, item: Any, kind: Any) -> Unread | None:
        """What is wrong with the value of one field: the first thing."""
        try:
            if item is not None:
                _check(msgspec.convert(_without_nulls(item), kind, strict=False), key)
        except msgspec.ValidationError as error:
            what, _, path = str(error).partition(" - at `")
            place = f"{key}{path.removeprefix('key in ').removeprefix('$').rstrip('`')}"
            return Unread(place, explain(msgspec.ValidationError(f"{what} - at `$.{place}`"), self._type).message)
        except ApiError as error:
            return Unread(key, error.message)
        return None

    def query(self, raw: bytes, extra: Mapping[str, str] | None = None) -> Any:
        """The request from a query string: dots address nested fields, a repeated key is a list. `extra` takes precedence. Equal
        queries may give the same request: nobody changes it."""
        given = tuple(extra.items()) if extra else ()
        if len(raw) + sum(len(value) for _, value in given) > _SHORT:
            return self._query(raw, given)
        return self._repeated(raw, given)

    def query_and_body(self, query: bytes, raw: bytes, extra: Mapping[str, str] | None = None) -> Any:
        """The request from a query string, and from a JSON body for the fields that the query lacks. `extra` as above."""
        request = self.body(raw, self._given(query) | dict(extra or {}))
        _check(request, "")
        return request

    def _query(self, raw: bytes, extra: tuple[tuple[str, str], ...]) -> Any:
        values = self._given(raw)
        values.update(extra)
        try:
            request = msgspec.convert(values, self._type, strict=False)
            if extra or _suspect(raw):
                _check(request, "")
        except msgspec.ValidationError as error:
            raise explain(error, self._type) from error
        return request

    def _given(self, raw: bytes) -> dict[str, Any]:
        """The fields of a query string, nested as in a body."""
        values: dict[str, Any] = {}
        try:
            for key, value in _pairs(raw):
                self._put(values, key, value)
        except UnicodeDecodeError as error:
            raise MalformedRequest("The query string is not valid UTF-8. Percent-encode it as UTF-8.") from error
        return values

    def _slow(self, raw: bytes, extra: Mapping[str, Any] | None) -> Any:
        value = msgspec.json.decode(raw)
        if not isinstance(value, dict):
            return msgspec.convert(value, self._type, strict=False)
        if self._document:
            return msgspec.convert({self._document: _without_nulls(value)} | dict(extra or {}), self._type, strict=False)
        try:  # a null has a meaning where the type takes one
            return msgspec.convert(value | dict(extra or {}), self._type, strict=False)
        except msgspec.ValidationError:
            return msgspec.convert(_without_nulls(value) | dict(extra or {}), self._type, strict=False)

    def _put(self, values: dict[str, Any], key: str, value: str) -> None:
        kind = self._keys.get(key)
        if kind is None and self._type.__struct_config__.forbid_unknown_fields:
            raise MalformedRequest(f"field '{_shown(key)}': there is no such parameter. There are: {', '.join(self._keys)}.")
        if kind is None or (not value and not kind.text):
            return
        *parents, name = key.split(".")
        for parent in parents:
            values = values.setdefault(parent, {})
        if kind.repeated:
            values.setdefault(name, []).append(value)
        else:
            values[name] = value


def query_keys(request: type[msgspec.Struct]) -> dict[str, tuple[Any, bool]]:
    """Every query key of the request: dotted name -> (type of one value, may be repeated)."""
    return {key: (kind.type, kind.repeated) for key, kind in _query_keys(request).items()}


class _Key(typing.NamedTuple):
    type: Any
    repeated: bool
    text: bool  # an empty string is a value


def _query_keys(request: type[msgspec.Struct], prefix: str = "") -> dict[str, _Key]:
    keys: dict[str, _Key] = {}
    for field in msgspec.structs.fields(request):
        kind, name = _without_none(field.type), prefix + field.encode_name
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            keys.update(_query_keys(kind, name + "."))
        elif typing.get_origin(kind) is list:
            keys[name] = _Key(typing.get_args(kind)[0], True, False)
        else:
            keys[name] = _Key(kind, False, kind is str)
    return keys


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    if not raw:
        return []
    if b"%" not in raw and b"+" not in raw:  # nothing to decode, as in most requests
        parts = (pair.partition("=") for pair in raw.decode().split("&", _MAX_FIELDS))
        return [(key, value) for key, _, value in parts]
    try:
        return parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        raise MalformedRequest(f"The query string has more than {_MAX_FIELDS} fields.") from error


def _without_nulls(value: Any) -> Any:
    """Removes null fields at any depth. Nulls in lists stay: list positions matter."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _suspect(raw: bytes) -> bool:
    """Whether it may hold something that `_check` refuses: rare, so the slow check runs only then. Without a pattern, which takes
    a hundred microseconds for a report with samples."""
    plain = raw.translate(_PLAIN)
    if b"\\u0000" in raw or b"%00" in raw or b"nan" in plain or b"inf" in plain:
        return True
    return _DIGITS in plain and _LONG.search(raw) is not None


def _check(value: Any, path: str) -> None:
    """Refuses values that are (nearly) valid JSON but that no field can hold."""
    if isinstance(value, msgspec.Struct):
        for field, name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
            _check(getattr(value, field), f"{path}.{name}" if path else name)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check(key, f"{path}[...]")
            _check(item, f"{path}[{_shown(str(key))}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, f"{path}[{index}]")
    elif isinstance(value, str) and "\x00" in value:
        raise MalformedRequest(f"field '{path}': holds a NUL character; remove it.")
    elif isinstance(value, int) and not -_INT64 <= value < _INT64:
        raise MalformedRequest(f"field '{path}': expected an integer of 64 bits, got {_shown(str(value))}.")
    elif isinstance(value, float) and not math.isfinite(value):
        raise MalformedRequest(f"field '{path}': expected a finite number, got {value}.")


def explain(error: msgspec.ValidationError, request: type[msgspec.Struct]) -> ApiError:
    """Converts a validation error to an API error that says what is wrong."""
    match = _ERROR.match(str(error))
    what, path = (match["what"], (match["path"] or "").lstrip(".")) if match else (str(error), "")
    if missing := _MISSING.match(what):
        return InvalidParameterValue(f"Missing required field: {path}.{missing['name']}".replace(": .", ": "))
    if extra := _UNKNOWN.match(what):
        return MalformedRequest(f"field '{_shown(f'{path}.' * bool(path) + extra['name'])}': there is no such field.")
    if unknown := _ENUM.match(what):
        allowed = ", ".join(_allowed(request, path)) or "(see the documentation)"
        return InvalidParameterValue(f"field '{path}': {_shown(unknown['value'])} is not an allowed value. Allowed: {allowed}.")
    if expected := _EXPECTED.match(what):
        want = expected["want"].replace(" | null", "")
        if not path:
            return MalformedRequest(f"The request body must be a JSON {want}, got {expected['got']}.")
        return MalformedRequest(f"field '{path}': expected {want}, got {expected['got']}.")
    return MalformedRequest(f"field '{path}': {_sentence(error if not match else what)}.")


def _allowed(request: Any, path: str) -> list[str]:
    """The enum values allowed at a path such as `filter_by.cluster_states[0]`."""
    kind = request
    for part in re.findall(r"[^.\[\]]+|\[[^\]]*\]", path):
        kind = _without_none(kind)
        if part.startswith("["):
            kind = typing.get_args(kind)[-1]
        else:
            kind = next((f.type for f in msgspec.structs.fields(kind) if f.encode_name == part), None)
    kind = _without_none(kind)
    return [str(member.value) for member in kind] if isinstance(kind, type) and issubclass(kind, enum.Enum) else []


def _without_none(kind: Any) -> Any:
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        rest = [arm for arm in typing.get_args(kind) if arm is not type(None)]
        return rest[0] if len(rest) == 1 else kind
    return kind


def _sentence(error: object) -> str:
    text = str(error).removeprefix("JSON is malformed: ").rstrip(".")
    return _shown(text[:1].lower() + text[1:])


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
