"""From the raw text a model gave as arguments to values that fit a tool's schema, or a word on what to send.

Pure. Forgiving about form (fences, strings for numbers), never about meaning: nothing is guessed.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from nanomem.errors import ShowModel
from nanomem.messages import ToolSchema

_LONGEST = 1_000_000
_FENCED = re.compile(r"```[a-zA-Z]*\s*(.*?)\s*```", re.DOTALL)


def tool_schema(name: str, description: str, required: Mapping[str, Any], **optional: Any) -> ToolSchema:
    """A schema from JSON Schemas of the parameters; a string stands for a text with that description."""
    properties = {key: _property(value) for key, value in (*required.items(), *optional.items())}
    return ToolSchema(name, description, {"type": "object", "properties": properties, "required": list(required)})


def whole_number(description: str) -> dict[str, str]:
    """The JSON Schema of an integer."""
    return {"type": "integer", "description": description}


def check_arguments(schema: ToolSchema, raw: str | None) -> dict[str, Any]:
    """The arguments a model meant, each of the type the schema wants; unknown ones are left out.

    Raises ShowModel with what to send instead.
    """
    try:
        given = _object(raw or "")
        return _fitted(schema.parameters, given)
    except RecursionError:
        problem = "they are nested too deeply"
    except ValueError as error:
        problem = str(error)
    raise ShowModel(f"The arguments of {schema.name} could not be used: {problem}. Send {_example(schema)}.")


def _property(value: Any) -> dict[str, Any]:
    return {"type": "string", "description": value} if isinstance(value, str) else dict(value)


def _object(raw: str) -> dict[str, Any]:
    if len(raw) > _LONGEST:
        raise ValueError(f"they are longer than {_LONGEST:,} characters")
    value: Any = raw
    for _ in range(4):  # a list of one string with a fenced object is as far as models were seen to go
        match value:
            case dict():
                return value
            case None:
                return {}
            case str():
                value = _parsed(value)
            case [only]:
                value = only
            case _:
                break
    raise ValueError("they are no JSON object")


def _parsed(text: str) -> Any:
    text = text.strip().lstrip("\ufeff")
    if fenced := _FENCED.fullmatch(text):
        text = fenced[1]
    if not text:
        return None
    try:
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=_each_once)
    except json.JSONDecodeError as error:
        raise ValueError(f"they are no complete JSON ({error.msg} at character {error.pos})") from None


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number in JSON")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{_clean(twice)[:50]!r} is in them twice")
    return named


def _fitted(schema: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The known ones of an object's values; None counts as not given."""
    known = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if given.get(name) is None]
    if missing:
        raise ValueError(f"`{missing[0]}` is missing")
    return {name: _coerced(name, known[name], given[name]) for name in known if given.get(name) is not None}


def _coerced(name: str, schema: Mapping[str, Any], value: Any) -> Any:
    match schema.get("type"):
        case "string":
            return _clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        case "integer":
            return _whole(name, value)
        case "boolean":
            return _truth(name, value)
        case "array":
            items = value if isinstance(value, list) else [value]
            return [_coerced(name, schema.get("items", {}), item) for item in items if item is not None]
        case "object":
            return _fitted(schema, _object(value if isinstance(value, str) else json.dumps(value)))
        case _:
            return value


def _whole(name: str, value: Any) -> int:
    if isinstance(value, str) and len(value) <= 20:
        try:
            value = float(value)
        except ValueError:
            raise ValueError(f"`{name}` has to be a whole number") from None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value != int(value):
        raise ValueError(f"`{name}` has to be a whole number")
    return int(value)


def _truth(name: str, value: Any) -> bool:
    word = str(value).casefold()
    if word not in ("true", "false"):
        raise ValueError(f"`{name}` has to be true or false")
    return word == "true"


def _clean(text: str) -> str:
    """The text with lone surrogates, which no file or network takes, replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _example(schema: ToolSchema) -> str:
    required = schema.parameters.get("required", ())
    return "one JSON object, like " + json.dumps({name: "..." for name in required}) if required else "{}"
