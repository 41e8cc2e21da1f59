"""Settings: one TOML file, the environment over it, checked as a whole, frozen.

Every complaint names the place, the value (secrets hidden) and what would be right. Knows nothing of
what the settings are for; components get plain values from here, never a `Settings`.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, get_args, get_origin
from zoneinfo import ZoneInfo, available_timezones

import msgspec
from msgspec import Meta, Struct

from nanomem.errors import Misuse
from nanomem.logs import redact

ENV_PREFIX = "NANOMEM__"
_MOST = 10**12
_SECRET_FILE_BYTES = 65_536
_DEEPEST = 4
_SECRET_NAME = re.compile(r"key$|secret|token$|password|credential|authorization", re.IGNORECASE)
_IN_URL = re.compile(r"(?<=://)[^/\s@]+(?=@)")


class Secret:
    """A text that hides. `env:NAME` and `file:PATH` stand for what is found there when it is used."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return f"Secret({str(self)!r})"

    def __str__(self) -> str:
        reference = re.fullmatch(r"env:\w{1,64}|file:.+", self._value)
        return self._value if reference or not self._value else "***"

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def reveal(self, environ: Mapping[str, str]) -> str:
        """The secret itself. Raises Misuse where the variable or file is missing or empty."""
        kind, _, place = self._value.partition(":")
        if kind == "env":
            if not (value := environ.get(place, "").strip()):
                name = place if re.fullmatch(r"\w{1,64}", place) else "it names"
                raise Misuse(f"The environment variable {name} is not set; a secret is to come from it.")
            return value
        return _from_file(place) if kind == "file" else self._value


def _from_file(place: str) -> str:
    path = Path(place)
    try:
        path = path.expanduser()
        if not path.is_absolute():
            raise Misuse(f"The file of a secret, {place}, needs an absolute path.")
        with path.open("rb") as file:
            value = file.read(_SECRET_FILE_BYTES).decode().strip()
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "it cannot be read as text"
        raise Misuse(f"The file {place}, which holds a secret, cannot be used: {reason}.") from None
    if not value:
        raise Misuse(f"The file {place}, which is to hold a secret, is empty.")
    return value


Count = Annotated[int, Meta(ge=0, le=_MOST, description="a whole number, 0 or more")]
Positive = Annotated[int, Meta(ge=1, le=_MOST, description="a whole number, 1 or more")]
Seconds = Annotated[
    Annotated[int, Meta(ge=0, le=_MOST)] | Annotated[float, Meta(ge=0, le=_MOST)],
    Meta(description="a number of seconds, 0 or more"),
]
Ratio = Annotated[float, Meta(gt=0, le=1, description="a number above 0 and at most 1")]
Temperature = Annotated[float, Meta(ge=0, le=2, description="a number from 0 to 2")]
Money = Annotated[float, Meta(ge=0, le=_MOST, description="a number, 0 or more")]
Name = Annotated[str, Meta(pattern=r"\S", description="a name, not empty")]
Url = Annotated[str, Meta(pattern=r"^https?://\S+\Z", description="an address that begins with http:// or https://")]
UrlOrNone = Annotated[str, Meta(pattern=r"^(https?://\S+)?\Z", description="an http(s) address, or empty")]
Proxy = Annotated[
    str, Meta(pattern=r"^((https?|socks5h?)://\S+)?\Z", description="an http(s) or socks5 address, or empty")
]
Cron = Annotated[
    str,
    Meta(
        pattern=r"^\s*[0-9A-Za-z*,/?#-]+(\s+[0-9A-Za-z*,/?#-]+){4}\s*\Z",
        description='a cron expression of five fields, e.g. "0 4 * * *"',
    ),
]
UserIds = tuple[int, ...]


class Defaults(Struct, frozen=True):
    model: Name = "offline"
    max_completion_tokens: Positive = 8192
    context_window_tokens: Positive = 65536
    safety_buffer_tokens: Count = 1024
    temperature: Temperature = 0.1
    max_tool_iterations: Positive = 40
    memory_window: Count = 100
    max_messages: Positive = 500
    timestamps: Literal["relative", "absolute", "off"] = "relative"
    timezone: Name = "auto"
    request_timeout_s: Seconds = 120
    cache_ttl_s: Seconds = 300
    daily_token_limit: Count = 0
    daily_cost_limit_usd: Money = 0.0

    @property
    def budget(self) -> int:
        """How many tokens a prompt may have; above 0."""
        return self.context_window_tokens - self.max_completion_tokens - self.safety_buffer_tokens


class Consolidation(Struct, frozen=True):
    model: str = ""
    target_ratio: Ratio = 0.5
    soft_ratio: Ratio = 0.8
    max_rounds: Positive = 5
    max_failures_before_raw_archive: Positive = 3
    deadline_s: Seconds = 60


class Dream(Struct, frozen=True):
    enabled: bool = True
    schedule: Cron = "0 4 * * *"
    threshold_entries: Count = 20
    quiet_s: Seconds = 3600
    model: str = ""
    daily_token_limit: Count = 200_000


class Agents(Struct, frozen=True):
    defaults: Defaults = Defaults()
    consolidation: Consolidation = Consolidation()
    dream: Dream = Dream()


class Memory(Struct, frozen=True):
    spaces: Literal["audience", "shared"] = "audience"
    remote: str = ""
    recall_unasked: bool = True
    embeddings: str = ""


class Provider(Struct, frozen=True):
    """How to reach one provider; `options` are further keys for litellm, what is secret in them wrapped."""

    api_key: Secret = Secret("")
    api_base: UrlOrNone = ""
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)

    def extra(self, environ: Mapping[str, str]) -> dict[str, Any]:
        """The options as litellm takes them, secrets revealed. Raises Misuse."""
        return dict(_mapped(self.options, lambda leaf: leaf.reveal(environ) if isinstance(leaf, Secret) else leaf))


class Telegram(Struct, frozen=True):
    enabled: bool = False
    token: Secret = Secret("env:TELEGRAM_BOT_TOKEN")
    allow_from: UserIds = ()
    owner: UserIds = ()
    base_url: Url = "https://api.telegram.org/bot"
    base_file_url: Url = "https://api.telegram.org/file/bot"
    proxy: Proxy = ""
    group_policy: Literal["mention", "all", "off"] = "mention"

    @property
    def owners(self) -> UserIds:
        """The owner's ids: those named, else the only one that may talk."""
        return self.owner or self.allow_from[:1]


class Channels(Struct, frozen=True):
    telegram: Telegram = Telegram()


class Exec(Struct, frozen=True):
    enabled: bool = True
    sandbox: Literal["bubblewrap", "none"] = "bubblewrap"
    timeout_s: Seconds = 60


class Tools(Struct, frozen=True):
    web_fetch: bool = True
    exec: Exec = Exec()


class Log(Struct, frozen=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"


_ANTHROPIC = Provider(api_key=Secret("env:ANTHROPIC_API_KEY"))


class Settings(Struct, frozen=True):
    agents: Agents = Agents()
    memory: Memory = Memory()
    providers: Mapping[str, Provider] = msgspec.field(default_factory=lambda: {"anthropic": _ANTHROPIC})
    channels: Channels = Channels()
    tools: Tools = Tools()
    log: Log = Log()

    def provider(self, model: str) -> Provider:
        """The provider of a model; one without settings leaves all to litellm."""
        return self.providers.get(provider_of(model), Provider())


def provider_of(model: str) -> str:
    """The provider's name in a litellm model name; bare names are Anthropic's or OpenAI's."""
    prefix, slash, _ = model.partition("/")
    return prefix if slash else "anthropic" if model.startswith("claude") else "openai"


def load(path: Path, environ: Mapping[str, str]) -> Settings:
    """The settings of a file, which may be missing, and the environment. Raises Misuse."""
    return _settings(_parsed(_text(path), path.name), environ, path.name)


def set_value(path: Path, key: str, value: object) -> None:
    """Sets one key of the file, `a.b.c` in snake or camel case. See `set_values`."""
    set_values(path, {key: value})


def set_values(path: Path, changes: Mapping[str, object]) -> None:
    """Changes keys of the file, all or none, keeping comments and order; texts are read as in the environment.

    Raises Misuse (where the file would be wrong after it, too) and CannotStore; the file is then unchanged.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    from nanomem.stores import durable

    text = _text(path)
    _parsed(text, path.name)
    try:
        document = tomlkit.parse(text)
        for key, value in changes.items():
            given = _Given(key, value, isinstance(value, str))
            _put(document, *_read(key.split("."), given))
        new = tomlkit.dumps(document)
        data = new.encode()
    except (TOMLKitError, UnicodeEncodeError) as error:
        raise Misuse(f"{path.name} cannot be changed: {error}. Change it with an editor.") from None
    _settings(_parsed(new, path.name), {}, path.name)
    if new != text:
        durable.replace(path.resolve(), data)


def masked(settings: Settings) -> str:
    """The settings as TOML, secrets hidden; references to secrets are shown."""
    import tomlkit

    return tomlkit.dumps(_mapped(settings, _hidden))


def secrets(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """All secret values that can be found now, for redaction; missing ones are left out."""
    found: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, str):
            found.extend(_IN_URL.findall(value))
        elif isinstance(value, Secret):
            try:
                found.append(value.reveal(environ))
            except Misuse:
                pass

    _mapped(settings, look)
    return [value for value in found if value]


def zone(name: str, environ: Mapping[str, str]) -> tzinfo:
    """A time zone by its name; `auto` is the machine's: TZ, then /etc/localtime, then UTC. Raises Misuse."""
    if name == "UTC":
        return UTC
    try:
        if name != "auto":
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        nearest = _closest(name, available_timezones() | {"UTC"})
        raise Misuse(f"{name!r} is not a time zone; the nearest is {nearest}.") from None
    for wanted in (environ.get("TZ", "").lstrip(":"), os.path.realpath("/etc/localtime")):
        try:
            return ZoneInfo(wanted.rpartition("zoneinfo/")[2].removeprefix("posix/"))
        except (KeyError, ValueError, OSError):
            continue
    try:
        with open("/etc/localtime", "rb") as file:
            return ZoneInfo.from_file(file)
    except (ValueError, OSError):
        return UTC


# --- from texts to values


class _Given(Struct, frozen=True):
    """A value as it was given: `place` names it in complaints; a text from outside TOML is `loose`."""

    place: str
    value: object
    loose: bool = False


_Path = tuple[str, ...]


def _settings(raw: Mapping[str, Any], environ: Mapping[str, str], file: str) -> Settings:
    inside = (
        (path, _Given(f"{file}: {'.'.join(path)}", value))
        for path, value in _leaves(raw)
        if not (value == {} and _is_table(path))
    )
    outside = (
        (tuple(name[len(ENV_PREFIX) :].split("__")), _Given(name, value, True))
        for name, value in sorted(environ.items())
        if name.upper().startswith(ENV_PREFIX)
    )
    values: dict[_Path, object] = {}
    places: dict[_Path, str] = {}
    for source in (inside, outside):
        seen: dict[_Path, str] = {}
        for path, given in source:
            key, value = _read(path, given)
            if key in seen:
                raise Misuse(f"{seen[key]} and {given.place} are the same setting; remove one of them.")
            seen[key], values[key] = given.place, value
        places |= seen
    settings: Settings = _built(Settings, values)
    _check(settings, lambda *path: places.get(path, f"{file}: {'.'.join(path)}"))
    return settings


def _leaves(table: Mapping[str, Any], above: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    for name, value in table.items():
        path = (*above, name)
        is_option = len(path) > 2 and _fold(path[0]) == "providers"
        if isinstance(value, dict) and value and not is_option and len(path) < _DEEPEST:
            yield from _leaves(value, path)
        else:
            yield path, value


def _read(written: Sequence[str], given: _Given) -> tuple[_Path, object]:
    """The key that is meant and its value."""
    path = tuple(_fold(part) for part in written)
    if path[0] == "providers" and len(path) == 3 and all(path):
        name = written[1].lower() if given.loose else written[1]
        key: _Path = ("providers", name, _PROVIDER_KEYS.get(path[2]) or _snake(written[2]))
        if path[2] not in _PROVIDER_KEYS:
            return key, _option(key[2], given.value, given.loose)
        return key, _value(_keys()["providers", key[2]], given)
    found = next((key for key in _keys() if tuple(map(_fold, key)) == path and key[0] != "providers"), None)
    if found is None:
        _unknown(written, given)
    return found, _value(_keys()[found], given)


_PROVIDER_KEYS = {"apikey": "api_key", "apibase": "api_base"}


@cache
def _keys() -> dict[_Path, Any]:
    """Every key and its type; those of a provider stand under `providers` once."""

    def of(table: type[Struct], above: _Path) -> Iterator[tuple[_Path, Any]]:
        for field in msgspec.structs.fields(table):
            path = (*above, field.name)
            if isinstance(field.type, type) and issubclass(field.type, Struct):
                yield from of(field.type, path)
            elif path == ("providers",):
                yield from of(Provider, path)
            elif path != ("providers", "options"):
                yield path, field.type

    return dict(of(Settings, ()))


def keys() -> list[str]:
    """Every setting there is, dotted."""
    return [".".join(path).replace("providers.", "providers.NAME.") for path in _keys()]


def _unknown(written: Sequence[str], given: _Given) -> NoReturn:
    same = [key for key in keys() if _fold(key.rpartition(".")[2]) == _fold(written[-1])]
    nearest = _closest(".".join(map(_snake, written)), same or keys())
    hidden = _SECRET_NAME.search(written[-1]) or _SECRET_NAME.search(nearest)
    shown = "***" if hidden and isinstance(given.value, str) else _shown(given.value)
    raise Misuse(f"{given.place} = {shown} is not a setting; the nearest one is {nearest}.")


def _value(kind: Any, given: _Given) -> object:
    value = given.value.strip() if given.loose and isinstance(given.value, str) else given.value
    if get_origin(kind) is Literal and given.loose and isinstance(value, str):
        value = value.lower()
    try:
        if kind is Secret:
            return Secret(msgspec.convert(value, str).strip())
        if kind == UserIds:
            return _user_ids(value, given.loose)
        return msgspec.convert(value, kind, strict=not given.loose)
    except msgspec.ValidationError:
        shown = "***" if kind is Secret else _shown(value)
        raise Misuse(f"{given.place} = {shown}: should be {_wanted(kind)}.") from None
    except ValueError as error:
        raise Misuse(f"{given.place} = {_shown(value)}: {error}.") from None


def _wanted(kind: Any) -> str:
    notes = [meta.description for meta in getattr(kind, "__metadata__", ()) if meta.description]
    if notes:
        return str(notes[-1])
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    return "true or false" if kind is bool else "text in quotes"


def _user_ids(value: object, loose: bool) -> UserIds:
    if loose and isinstance(value, str):
        parts = [part for part in value.split(",") if part.strip()]
        value = _json(value) if value.startswith("[") else parts
    if not isinstance(value, list | tuple):
        raise ValueError("should be a list of numeric user ids, e.g. [123456]")
    return tuple(dict.fromkeys(map(_user_id, value)))


def _user_id(item: object) -> int:
    text = str(item).strip() if isinstance(item, str | int) else ""
    if isinstance(item, bool) or not re.fullmatch(r"[0-9]{1,15}", text) or int(text) == 0:
        raise ValueError(f"{_shown(item)} is not a numeric user id, which has only the digits 0-9, e.g. 123456")
    return int(text)


def _json(text: str) -> object:
    """What the JSON says; what is none stays a text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _option(name: str, value: object, loose: bool) -> object:
    """A further key of a provider: kept as it is, what may be secret wrapped."""
    if loose and isinstance(value, str) and not _SECRET_NAME.search(name):
        value = _json(value)
    if isinstance(value, dict):
        inner = "authorization" if "header" in name else name
        return {key: _option(f"{inner} {key}", item, False) for key, item in value.items()}
    if isinstance(value, list):
        return [_option(name, item, False) for item in value]
    is_secret = isinstance(value, str) and (_SECRET_NAME.search(name) or value.startswith(("env:", "file:")))
    return Secret(str(value)) if is_secret else value


def _built(table: Any, values: Mapping[_Path, Any], above: _Path = ()) -> Any:
    given: dict[str, Any] = {}
    for field in msgspec.structs.fields(table):
        path = (*above, field.name)
        if path in values:
            given[field.name] = values[path]
        elif isinstance(field.type, type) and issubclass(field.type, Struct):
            given[field.name] = _built(field.type, values, path)
    if table is Settings:
        given["providers"] = _providers(values)
    return table(**given)


def _providers(values: Mapping[_Path, Any]) -> dict[str, Provider]:
    found = {"anthropic": _ANTHROPIC}
    for (_, name, key), value in (item for item in values.items() if item[0][0] == "providers"):
        same = next((known for known in found if _fold(known) == _fold(name)), name)
        before = found.get(same, Provider())
        change = {key: value} if key in _PROVIDER_KEYS.values() else {"options": {**before.options, key: value}}
        found[same] = msgspec.structs.replace(before, **change)
    return found


def _check(settings: Settings, place: Callable[..., str]) -> None:
    """What no single value shows."""
    defaults, telegram = settings.agents.defaults, settings.channels.telegram
    try:
        zone(defaults.timezone, {})
    except Misuse as error:
        raise Misuse(f"{place('agents', 'defaults', 'timezone')}: {error.text}") from None
    if defaults.budget <= 0:
        raise Misuse(
            f"{place('agents', 'defaults', 'context_window_tokens')} = {defaults.context_window_tokens} less "
            f"max_completion_tokens {defaults.max_completion_tokens} and safety_buffer_tokens "
            f"{defaults.safety_buffer_tokens} leaves {defaults.budget} tokens for a prompt; it must be above 0."
        )
    owner = place("channels", "telegram", "owner")
    if not telegram.owner and len(telegram.allow_from) > 1:
        raise Misuse(f"{owner} = []: name the owner, since channels.telegram.allow_from has more than one id.")
    if strangers := [user for user in telegram.owner if user not in telegram.allow_from]:
        raise Misuse(f"{owner} = {list(telegram.owner)}: add {strangers[0]} to channels.telegram.allow_from, too.")


# --- walking over settings


def _is_table(path: _Path) -> bool:
    folded = tuple(map(_fold, path))
    return folded[0] == "providers" or any(tuple(map(_fold, key[: len(path)])) == folded for key in _keys())


def _mapped(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Tables as dictionaries, with each single value changed."""
    if isinstance(value, Provider):
        value = {"api_key": value.api_key, "api_base": value.api_base, **value.options}
    elif isinstance(value, Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, Mapping):
        return {name: _mapped(item, leaf) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(item, leaf) for item in value]
    return leaf(value)


def _hidden(value: Any) -> Any:
    if isinstance(value, Secret):
        return str(value)
    return _IN_URL.sub("***", value) if isinstance(value, str) else value


def _fold(name: str) -> str:
    return name.replace("_", "").lower()


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", name).lower()


def _closest(name: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    return get_close_matches(name[:200], names, n=1, cutoff=0)[0]


def _shown(value: object) -> str:
    text = redact(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= 80 else f"{text[:77]}..."


# --- the file


def _text(path: Path) -> str:
    """What the file says, without a byte order mark; nothing where there is none. Raises Misuse."""
    try:
        if path.exists() and not path.is_file():
            raise Misuse(f"{path} is not a file; the settings belong there. Move it away.")
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Misuse(f"{path} cannot be read: {error.strerror}. Give yourself the right to read it.") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise Misuse(f"{path}, line {line}: these bytes are not UTF-8 text. Save the file as UTF-8.") from None


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise Misuse(f"{name} is nested too deeply to be settings.") from None
    except ValueError as error:
        raise Misuse(f"{name} is not valid TOML: {error}. Correct that line.") from None


def _put(table: Any, path: _Path, value: Any) -> None:
    """Sets a key of a document, in the spelling that is there already."""
    import tomlkit

    for depth, part in enumerate(path):
        if not hasattr(table, "setdefault"):
            raise Misuse(f"{'.'.join(path[:depth])} in the file is not a table. Correct that line.")
        name = next((known for known in table if _fold(known) == _fold(part)), part)
        if depth < len(path) - 1:
            if name not in table:
                table.add(name, tomlkit.table(is_super_table=depth < len(path) - 2))
            table = table[name]
        else:
            table[name] = _mapped(value, lambda leaf: leaf._value if isinstance(leaf, Secret) else leaf)
