"""The docs say what the program does: a setting, command or tool that is missing from them fails the build."""

import json
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from datetime import UTC
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer

import benchmarks.__main__ as benchmarks
import proofs.__main__ as proofs
from nanomem import entries
from nanomem.cli import app
from nanomem.ports import Origin
from nanomem.records import Other, from_json, to_json
from nanomem.settings import keys, load, masked
from nanomem.skills import triggered
from nanomem.spaces import Spaces
from nanomem.stores.skills import skill_of
from nanomem.testing import FakeMemory, FakeSkills
from nanomem.tools import Workbench, load_tools
from tests.stories.chat import World, running

ROOT = Path(__file__).parents[1]
DOCS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
SETTINGS = (ROOT / "docs" / "settings.md").read_text()
PROOFS = (ROOT / "docs" / "proofs.md").read_text()

_ROW = re.compile(r"^\| `([^`]+)` \| (.*) \|$", re.M)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_MENTION = re.compile(r"`((?:nanomem|scripts/[a-z]+) [a-z-][^`]*)`")
_MODULE = re.compile(r"python -m ([a-z][\w.]*)")


def rows(text: str, pattern: str) -> dict[str, str]:
    """The rows of all tables whose first cell is code that fits the pattern: that code, and the other cells."""
    return {first: rest for first, rest in _ROW.findall(text) if re.fullmatch(pattern, first)}


def blocks(text: str, language: str) -> list[str]:
    return [body for named, body in _BLOCK.findall(text) if named == language]


# --- what is there


def defaults() -> dict[str, object]:
    """Each setting and its default; those of a provider that has no settings are empty."""

    def flat(table: dict[str, Any], above: str) -> Iterator[tuple[str, object]]:
        for name, value in table.items():
            yield from flat(value, f"{above}{name}.") if isinstance(value, dict) else [(above + name, value)]

    return dict(flat(tomllib.loads(masked(load(ROOT / "no such file", {}))), ""))


async def slash_commands() -> set[str]:
    """As `/help` lists them."""
    async with running(World()) as chat:
        await chat.says("/help")
        await chat.until_answered()
        return {line.partition(":")[0] for line in chat.hears[0].splitlines()}


def cli_commands(command: Any, name: str = "nanomem") -> dict[str, Any]:
    """Every command that does something, by its full name; groups are no commands."""
    inner: dict[str, Any] = getattr(command, "commands", {})
    if not inner:
        return {name: command}
    return {full: found for sub in inner for full, found in cli_commands(inner[sub], f"{name} {sub}").items()}


def tools() -> set[str]:
    return set(load_tools(Workbench(UTC, memory=FakeMemory(), skills=FakeSkills())))


def scripts() -> set[str]:
    return {f"scripts/{path.name}" for path in (ROOT / "scripts").iterdir()}


def options(main: Callable[[Sequence[str]], int]) -> dict[str, bool]:
    """Those of a script, as its help tells them, and whether a value stands behind each."""
    help = StringIO()
    with redirect_stdout(help), pytest.raises(SystemExit):
        main(["--help"])
    return {name: bool(value) for name, value in re.findall(r"(?m)^  (--[a-z]+)( [A-Z]+)?", help.getvalue())}


NAME = r"[a-z][a-z-]*"
"""Of a proof or benchmark."""


# --- what is wrong


def missing(wanted: Iterable[str], text: str) -> list[str]:
    """Those that do not stand in the text as code, alone or with what belongs to them."""
    return sorted(name for name in wanted if not re.search(rf"`{re.escape(name)}(?![\w-])[^`\n]*`", text))


def wrong_settings(text: str) -> list[str]:
    """Settings without a row of their own, rows without a setting, and rows with another default."""
    documented, there = rows(text, r"[a-zA-Z_]+(\.[a-zA-Z_]+)+"), defaults()
    problems = sorted(set(keys()) ^ set(documented))
    for key in set(keys()) & set(documented):
        cell = documented[key].partition(" | ")[0].strip("`")
        if tomllib.loads(f"value = {cell}")["value"] != there.get(key, ""):
            problems.append(f"{key} = {cell}")
    return problems


def dead_links(page: Path, text: str) -> list[str]:
    """Links to files or headings that are not there."""
    return [link for link in _LINK.findall(text) if "://" not in link and not _leads_somewhere(page, link)]


def _leads_somewhere(page: Path, link: str) -> bool:
    name, _, heading = link.partition("#")
    target = page.parent / name if name else page
    if not target.exists() or not heading:
        return target.exists()
    return heading in {_slug(line) for line in re.findall(r"^#+ (.*)$", target.read_text(), re.M)}


def _slug(heading: str) -> str:
    """As GitHub names a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def wrong_commands(text: str) -> list[str]:
    """Shell lines and mentions that name a script, command or option that is not there."""
    lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
    lines += _MENTION.findall(text)
    return [line for line in lines if not _works(shlex.split(line.partition("|")[0], comments=True))]


def _works(words: list[str]) -> bool:
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    if not words:
        return True
    program, *arguments = words
    if program == "nanomem" or (program == "scripts/run" and arguments):
        return _is_command(arguments)
    if program == "scripts/bench":
        return _names_only(arguments, set(benchmarks.known()), options(benchmarks.main))
    if program == "scripts/prove":
        return _names_only(arguments, set(rows(PROOFS, NAME)), options(proofs.main))
    if program == "scripts/test":
        return all((ROOT / word).exists() for word in arguments if not word.startswith("-"))
    return os.access(ROOT / program, os.X_OK)


def _names_only(words: Sequence[str], names: set[str], options: Mapping[str, bool]) -> bool:
    """Whether they are such names and such options, with their values."""
    pairs = zip(["", *words], words, strict=False)
    return all(word in names or word in options or options.get(before, False) for before, word in pairs)


def _is_command(arguments: list[str]) -> bool:
    command: Any = typer.main.get_command(app)
    known = {option for param in command.params for option in param.opts}
    for word in arguments:
        if word.startswith("-"):
            known |= {option for param in command.params for option in param.opts}
            if word.partition("=")[0] not in known:
                return False
        elif inner := getattr(command, "commands", None):
            if word not in inner:
                return False
            command = inner[word]
    return True


# --- the checks


def test_every_setting_is_documented_with_its_default() -> None:
    """In a row of its own, and no row is left of one that is gone."""
    assert wrong_settings(SETTINGS) == []


async def test_every_slash_command_is_in_the_readme() -> None:
    """In the table of the chat, and nothing else is."""
    assert set(rows(README, r"/[a-z-]+")) == await slash_commands()


def test_every_command_of_the_command_line_is_in_the_readme() -> None:
    """In its table, and nothing else is."""
    assert set(rows(README, r"nanomem [a-z -]+")) == set(cli_commands(typer.main.get_command(app)))


def test_every_tool_is_in_the_readme() -> None:
    """By the name that the model calls it."""
    assert len(tools()) > 5
    assert missing(tools(), README) == []


def test_every_script_is_described_for_those_who_take_part() -> None:
    """In the table of CONTRIBUTING.md, and nothing else is."""
    assert set(rows(CONTRIBUTING, r"scripts/[a-z]+")) == scripts()


def test_every_benchmark_is_named() -> None:
    """Behind the script that runs it, and no other is."""
    assert set(re.findall(rf"`({NAME})`", rows(CONTRIBUTING, r"scripts/[a-z]+")["scripts/bench"])) == set(
        benchmarks.known()
    )


def test_every_proof_is_described() -> None:
    """It has a row in the table of proofs, and a section of what it assumes and does not try."""
    assert set(proofs.known()) == set(rows(PROOFS, NAME))
    for name in rows(PROOFS, NAME):
        section = PROOFS.partition(f"\n### {name}\n")[2].partition("\n#")[0]
        assert "*Assumes*" in section or "*Assumes " in section, name
        assert "*Does not try*" in section, name
    assert [option for option in options(proofs.main) if option not in PROOFS and option != "--help"] == []


def test_every_proof_is_named_by_the_promise_it_is_for() -> None:
    """The README says of each what it is good for."""
    named = " ".join(re.findall(r"`scripts/prove ([^`]*)`", README)).split()
    assert set(rows(PROOFS, NAME)) <= set(named)


def test_every_page_is_found_from_the_readme() -> None:
    """By a link; a page that nobody comes upon is not read."""
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in _LINK.findall(README) if "://" not in link}
    assert [page.name for page in DOCS if page.name != "README.md" and page not in linked] == []


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_modules_that_are_run_exist(page: Path) -> None:
    """After `python -m`."""
    assert [name for name in _MODULE.findall(page.read_text()) if find_spec(name) is None] == []


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """To files and headings that are there."""
    assert dead_links(page, page.read_text()) == []


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_commands_that_are_shown_exist(page: Path) -> None:
    """Scripts can be started; `nanomem` knows the commands and options."""
    assert wrong_commands(page.read_text()) == []


async def test_the_example_of_a_tool_works() -> None:
    """As it stands there, with the interface that tools have now."""
    [code] = [code for code in blocks((ROOT / "docs" / "how-it-works.md").read_text(), "python") if "def build" in code]
    module: dict[str, Any] = {}
    exec(code, module)
    tool = module["build"](Workbench(UTC))
    space = Spaces(Path("/nowhere")).of("terminal:local")
    thrown = await tool.run({"sides": 6, "count": 3}, Origin(space))
    assert re.fullmatch(r"[1-6]( [1-6]){2}", thrown)
    assert tool.schema.name not in tools()


def test_the_example_of_a_skill_is_one() -> None:
    """With the name that its text says, and a trigger that calls for it."""
    [text] = [code for code in blocks((ROOT / "docs" / "skills.md").read_text(), "") if code.startswith("---\n")]
    skill = skill_of("tea", text)
    assert triggered([skill], ["Where is the kettle?"]) == [skill] and not skill.always


def test_the_example_of_a_session_is_one() -> None:
    """Each line is a record that is written again as it stands there."""
    text = (ROOT / "docs" / "session-format.md").read_text()
    lines = [json.loads(line) for block in blocks(text, "json") for line in block.splitlines()]
    history = [line for line in lines if "cursor" in line]
    assert len(lines) > 5 and len(history) == 1
    assert entries_of_history(history) == history
    for line in [
        *(line for line in lines if "cursor" not in line),
        *(json.loads(block) for block in blocks(README, "json")),
    ]:
        record = from_json(line, 0)
        assert not isinstance(record, Other)
        assert to_json(record) == line


def entries_of_history(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entries.to_json(entries.from_json(line)) for line in lines]


def test_the_checks_can_fail() -> None:
    """Each of them sees what it is there for."""
    row = "| `log.level` | `"
    assert wrong_settings(SETTINGS.replace(row, "| `log.loud` | `")) == ["log.level", "log.loud"]
    assert wrong_settings(SETTINGS.replace(f'{row}"info"', f'{row}"debug"')) == ['log.level = "debug"']
    assert missing(["grep", "gre", "rep"], "`grep` and `grep(pattern)`") == ["gre", "rep"]
    page = ROOT / "README.md"
    good, bad = "[a](docs/settings.md#all-settings)", "[a](docs/nothing.md) [b](#nothing) [c](docs/settings.md#nothing)"
    assert dead_links(page, good) == []
    assert dead_links(page, bad) == ["docs/nothing.md", "#nothing", "docs/settings.md#nothing"]
    wrong = ["scripts/walk", "scripts/run frobnicate", "nanomem run --bogus", "nanomem config frobnicate", "LICENSE"]
    right = ["A=b scripts/run", "scripts/test -x", "nanomem --home=x chat -m hi | less", "nanomem config set k v  # so"]
    assert wrong_commands("```sh\n" + "\n".join(wrong + right) + "\n```\n") == wrong
    assert wrong_commands("`nanomem frobnicate` and `nanomem status --json`") == ["nanomem frobnicate"]
    untrue = [
        "scripts/bench nothing",
        "scripts/bench --nothing",
        "scripts/prove --quick nothing",
        "scripts/test tests/nothing",
    ]
    true = ["scripts/bench start --json", "scripts/prove kills power --seed 7 --quick", "scripts/test tests/tools -x"]
    assert wrong_commands("".join(f"`{line}` " for line in untrue + true)) == untrue
