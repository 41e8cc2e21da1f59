"""Settings: one TOML file, the environment over it, checked as a whole; how they are read, shown and changed.

Every complaint names the place, the value (secrets hidden) and what would be right.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from nanomem.errors import Misuse
from nanomem.logs import redact
from nanomem.secret import Secret
from nanomem.settings_schema import ANTHROPIC_KEY, Provider, Settings, UserIds, provider_of, zone

__all__ = ["Secret", "Settings", "keys", "load", "masked", "provider_of", "secrets", "set_value", "set_values", "zone"]

ENV_PREFIX = "NANOMEM__"
_SECRET_NAME = re.compile(r"key$|token$|secret|password|credential|auth", re.IGNORECASE)
_LOGIN_IN_URL = re.compile(r"(?<=://)[^/\s@]+(?=@)")

Key = tuple[str, ...]


def load(path: Path, environ: Mapping[str, str]) -> Settings:
    """The settings of a file, which may be missing, and the environment. Raises Misuse."""
    variables = sorted(name for name in environ if name.upper().startswith(ENV_PREFIX))
    return _built(
        _values_of(_text(path), path.name)
        | dict(_read(name, name[len(ENV_PREFIX) :].split("__"), environ[name], loose=True) for name in variables)
    )


def _text(path: Path) -> str:
    """What the file says, without a byte order mark; nothing where there is none. Raises Misuse."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(f"{path} cannot be read: {error}. It should be a text file of yours, in UTF-8.") from None


def _values_of(toml: str, file: str) -> dict[Key, object]:
    try:
        tables = tomllib.loads(toml)
    except (ValueError, RecursionError) as error:
        raise Misuse(f"{file} is not valid TOML: {error}. Correct that line.") from None
    return dict(_read(f"{file}: {'.'.join(path)}", path, value) for path, value in _leaves(tables))


def _leaves(table: Mapping[str, Any], above: Key = ()) -> Iterator[tuple[Key, Any]]:
    """Each value with its path; what is inside a provider's key is one value."""
    for name, value in table.items():
        path = (*above, name)
        if isinstance(value, dict) and not (above and above[0] == "providers" and len(path) == 3):
            yield from _leaves(value, path)
        else:
            yield path, value


def _read(place: str, written: Sequence[str], value: object, loose: bool = False) -> tuple[Key, object]:
    """The key that is meant and its value. A text from outside TOML is `loose`. Raises Misuse that names the place."""
    key = tuple(map(_snake, written))
    if (kind := _kinds().get(_general(key))) is not None:
        return key, _converted(place, key, value, kind)
    if key[0] == "providers" and len(key) == 3:
        return key, _option(key, value, loose)
    same = [known for known in keys() if known.rpartition(".")[2] == key[-1]]
    nearest = get_close_matches(".".join(key), same or keys(), n=1, cutoff=0)[0]
    raise Misuse(f"{place} = {_shown(value, key[-1], nearest)} is not a setting; the nearest one is {nearest}.")


def _general(key: Key) -> Key:
    return ("providers", "NAME", *key[2:]) if key[0] == "providers" else key


@cache
def _kinds() -> dict[Key, Any]:
    """Every key and its type; those of a provider stand once, under `NAME`."""

    def of(table: type[Struct], above: Key) -> Iterator[tuple[Key, Any]]:
        for field in msgspec.structs.fields(table):
            path = (*above, field.name)
            if path == ("providers",):
                yield from of(Provider, (*path, "NAME"))
            elif isinstance(field.type, type) and issubclass(field.type, Struct):
                yield from of(field.type, path)
            elif field.name != "options":
                yield path, field.type

    return dict(of(Settings, ()))


def keys() -> list[str]:
    """Every setting there is, dotted."""
    return [".".join(key) for key in _kinds()]


def _converted(place: str, key: Key, value: object, kind: Any) -> object:
    """A number in quotes is a number."""
    given = value.strip() if isinstance(value, str) else value
    if kind == UserIds and isinstance(given, str):
        given = [part.strip(' "') for part in given.strip("[]").split(",") if part.strip()]

    def secret(_: Any, text: object) -> Secret:
        return Secret(msgspec.convert(text, str), ".".join(key))

    try:
        return msgspec.convert(given, kind, strict=False, dec_hook=secret)
    except msgspec.ValidationError:
        raise Misuse(f"{place} = {_shown(value, key[-1])}: should be {_wanted(kind)}.") from None


def _wanted(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    notes: Sequence[Meta] = getattr(kind, "__metadata__", ())
    return str(notes[-1].description) if notes else "true or false" if kind is bool else "text in quotes"


def _option(key: Key, value: object, loose: bool = False) -> object:
    """A further key of a provider: what may be secret is wrapped, a loose text is JSON where it can be."""
    if isinstance(value, dict):
        return {inner: _option((*key, inner), item) for inner, item in value.items()}
    if not isinstance(value, str):
        return value
    if _SECRET_NAME.search(key[-1]) or value.startswith(("env:", "file:")):
        return Secret(value, ".".join(key))
    try:
        return _option(key, json.loads(value)) if loose else value
    except ValueError:
        return value


def _built(values: Mapping[Key, object]) -> Settings:
    tables: dict[str, Any] = {"providers": {"anthropic": {"api_key": ANTHROPIC_KEY}}}
    for key, value in values.items():
        is_option = _general(key) not in _kinds()
        table = tables
        for name in (*key[:-1], "options") if is_option else key[:-1]:
            table = table.setdefault(name, {})
        table[key[-1]] = value
    return msgspec.convert(tables, Settings)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _shown(value: object, *names: str) -> str:
    """A value in a complaint; under a name that may mean a secret it hides."""
    if any(map(_SECRET_NAME.search, names)):
        return "***"
    return redact(json.dumps(value, ensure_ascii=False, default=str))


# --- showing


def masked(settings: Settings) -> str:
    """The settings as TOML, secrets hidden; references to secrets are shown."""
    import tomlkit

    tables = msgspec.to_builtins(settings, enc_hook=str)
    for provider in tables["providers"].values():
        provider |= provider.pop("options")
    return _LOGIN_IN_URL.sub("***", tomlkit.dumps(tables))


def secrets(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """All secret values that can be found now, for redaction; missing ones are left out."""
    found: list[str] = []

    def look(secret: Secret) -> str:
        try:
            found.append(secret.reveal(environ))
        except Misuse:
            pass
        return ""

    rest = msgspec.to_builtins(settings, enc_hook=look)
    return [secret for secret in found + _LOGIN_IN_URL.findall(str(rest)) if secret]


# --- changing


def set_value(path: Path, key: str, value: object) -> None:
    """Sets one key of the file, `a.b.c` in snake or camel case. See `set_values`."""
    set_values(path, {key: value})


def set_values(path: Path, changes: Mapping[str, object]) -> None:
    """Changes keys of the file, all or none, keeping comments and order; texts are read as in the environment.

    Raises Misuse (where the file would be wrong after it, too) and CannotStore; the file is then unchanged.
    """
    import tomlkit

    from nanomem.stores import durable

    text = _text(path)
    try:
        document = tomlkit.parse(text)
        for dotted, value in changes.items():
            _put(document, *_read(dotted, dotted.split("."), value, loose=True))
        new = tomlkit.dumps(document)
        data = new.encode()
    except ValueError as error:
        raise Misuse(f"{path} cannot be changed: {error}. Change it with an editor.") from None
    _built(_values_of(new, path.name))
    if new != text:
        durable.replace(path.resolve(), data)


def _put(document: MutableMapping[str, Any], key: Key, value: object) -> None:
    """Sets a key of a document, in the spelling that is there already."""
    import tomlkit

    *above, last = key
    table: Any = document
    for depth, name in enumerate(above, start=1):
        spelt = _spelt(table, name)
        if spelt not in table:
            table.add(spelt, tomlkit.table(is_super_table=depth < len(above)))
        table = table[spelt]
        if not isinstance(table, MutableMapping):
            raise Misuse(f"{'.'.join(above[:depth])} in the file is not a table. Correct that line.")
    table[_spelt(table, last)] = msgspec.to_builtins(value, enc_hook=lambda secret: secret.written)


def _spelt(table: Iterable[str], name: str) -> str:
    return next((known for known in table if _snake(known) == name), name)
