"""Settings: what is read, what is refused and in which words, and how a file is changed."""

import json
import os
import tomllib
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from nanomem.errors import CannotStore, Misuse
from nanomem.settings import Secret, Settings, keys, load, masked, secrets, set_value, set_values, zone

TEMPLATE = Path(__file__).parent.parent / "workspace-template" / "config.toml"
KEY = "sk-canary-0123456789abcdef"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def read(config: Path, text: str, **environ: str) -> Settings:
    config.write_text(text, encoding="utf-8")
    return load(config, environ)


def refusal(config: Path, text: str, **environ: str) -> str:
    with pytest.raises(Misuse) as refused:
        read(config, text, **environ)
    assert "\n" not in refused.value.text
    return refused.value.text


def test_without_a_file_the_defaults_count(tmp_path: Path) -> None:
    """A missing file is an empty one."""
    assert load(tmp_path / "none.toml", {}) == Settings()


def test_the_template_says_the_defaults_and_all_of_them() -> None:
    """What a new home's file says is what counts without it, and no key is missing in it."""
    assert load(TEMPLATE, {}) == Settings()

    def dotted(table: dict[str, Any], above: str = "") -> set[str]:
        found: set[str] = set()
        for name, value in table.items():
            found |= dotted(value, f"{above}{name}.") if isinstance(value, dict) else {above + name}
        return found

    said = dotted(tomllib.loads(TEMPLATE.read_text(encoding="utf-8")))
    assert said == {key.replace("NAME", "anthropic") for key in keys()}


def test_the_environment_wins_over_the_file(config: Path) -> None:
    """In any case."""
    text = '[agents.defaults]\nmodel = "a"\nmemory_window = 7\n'
    settings = read(config, text, NANOMEM__AGENTS__DEFAULTS__MODEL="b", nanomem__agents__defaults__maxMessages="9")
    assert settings.agents.defaults.model == "b"
    assert settings.agents.defaults.memory_window == 7
    assert settings.agents.defaults.max_messages == 9


def test_camel_case_means_the_same(config: Path) -> None:
    """In keys of the file, provider's keys included."""
    settings = read(config, '[agents.defaults]\nmemoryWindow = 5\n[providers.openai]\napiKey = "k"\napiVersion = "1"\n')
    assert settings.agents.defaults.memory_window == 5
    assert settings.providers["openai"].api_key.reveal({}) == "k"
    assert settings.providers["openai"].options == {"api_version": "1"}


def test_a_home_is_not_a_setting(config: Path) -> None:
    """NANOMEM_HOME has one underscore and is left alone."""
    assert read(config, "", NANOMEM_HOME="/x") == Settings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[agents.defaults]\nmodle = "x"', ["config.toml: agents.defaults.modle", '"x"', "agents.defaults.model"]),
        ("memory_window = 5", ["config.toml: memory_window = 5", "agents.defaults.memory_window"]),
        ("[agents.dreem]\nquiet_s = 5", ["agents.dreem.quiet_s", "agents.dream.quiet_s"]),
        ('log = "info"', ["log", "log.level"]),
        ('[providers]\nopenai = "x"', ["providers.openai", "providers.NAME"]),
        ("[agents.defaults]\nmodel = 5", ["agents.defaults.model = 5", "a name"]),
        ('[agents.defaults]\nmodel = " "', ["agents.defaults.model", "not empty"]),
        ("[agents.defaults]\nmax_messages = true", ["max_messages = true", "whole number"]),
        ("[agents.defaults]\nmax_messages = -1", ["max_messages = -1", "1 or more"]),
        ("[agents.defaults]\ntemperature = nan", ["temperature = NaN", "0 to 2"]),
        ("[agents.defaults]\ntimestamps = 'now'", ['timestamps = "now"', "relative, absolute, off"]),
        ("[agents.defaults]\ntimezone = 'Europe/Belrin'", ["timezone", "Europe/Belrin", "not a time zone"]),
        ("[agents.defaults]\ntimezone = '../../etc/passwd'", ["timezone", "../../etc/passwd"]),
        ("[agents.defaults]\ncontext_window_tokens = 9216", ["context_window_tokens = 9216", "leaves 0", "above 0"]),
        ("[agents.consolidation]\ntarget_ratio = 0", ["target_ratio = 0", "above 0"]),
        ("[agents.consolidation]\nsoft_ratio = 1.5", ["soft_ratio = 1.5", "at most 1"]),
        ("[agents.dream]\nschedule = '0 4 * *'", ["schedule", "five cron fields"]),
        ("[channels.telegram]\nallow_from = 5", ["allow_from = 5", "[123456]"]),
        ("[channels.telegram]\nallow_from = ['１２３']", ["allow_from", "１２３", "numeric"]),
        ("[channels.telegram]\nallow_from = ['@ann']", ["allow_from", "@ann", "numeric"]),
        ("[channels.telegram]\nallow_from = [-1001]", ["allow_from", "-1001"]),
        ("[channels.telegram]\nallow_from = [true]", ["allow_from", "true"]),
        ("[channels.telegram]\nallow_from = [1, 2]", ["channels.telegram.owner", "more than one"]),
        ("[channels.telegram]\nallow_from = [1]\nowner = [2]", ["channels.telegram.owner = [2]", "allow_from"]),
        ("[channels.telegram]\nbase_url = 'ftp://x'", ["base_url", "http"]),
        ("[channels.telegram]\ntoken = 5", ["channels.telegram.token = ***", "text"]),
        ("[agents.defaults\nmodel = 1", ["config.toml", "not valid TOML", "line 1"]),
        ("a = " + "[" * 5000, ["config.toml", "not valid TOML"]),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_what_is_right(config: Path, text: str, words: list[str]) -> None:
    """One line: the place, the value, and the nearest key or what would be right."""
    said = refusal(config, text)
    assert [word for word in words if word not in said] == [], said


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("NANOMEM__AGENTS__DEFAULTS__MODLE", "x", ["agents.defaults.model"]),
        ("NANOMEM__LOG", "x", ["log.level"]),
        ("NANOMEM__", "x", []),
        ("NANOMEM__FOO", "x", ["the nearest one is"]),
        ("NANOMEM__LOG__LEVEL", "loud", ["debug, info"]),
        ("NANOMEM__AGENTS__DREAM__ENABLED", "perhaps", ["true or false"]),
        ("NANOMEM__AGENTS__DEFAULTS__MAX_MESSAGES", "１２", ["whole number"]),
        ("NANOMEM__CHANNELS__TELEGRAM__ALLOW_FROM", "1,ann", ["numeric"]),
    ],
)
def test_a_wrong_variable_is_named(config: Path, name: str, value: str, words: list[str]) -> None:
    """The variable's own name is the place."""
    said = refusal(config, "", **{name: value})
    assert [word for word in [name, *words] if word not in said] == [], said


def test_no_complaint_shows_a_secret(config: Path) -> None:
    """Neither under a misspelt key nor in a wrong place."""
    for text in (f'[providers.x.y]\napi_kee = "{KEY}"\n[log]\nformt="{KEY}"', f'[channels.telegram]\ntokn = "{KEY}"'):
        assert KEY not in refusal(config, text)
    assert "hunter2" not in refusal(config, '[channels.telegram]\ntokn = "hunter2"')
    assert KEY not in refusal(config, "", NANOMEM__PROVIDERS__APIKEY=KEY)
    assert KEY not in refusal(config, f'[log]\nlevel = "{KEY}"')


@pytest.mark.parametrize("ids", ['["123"]', "[123]", '"123"', "'[123]'"])
def test_ids_mean_the_same_however_they_are_written(config: Path, ids: str) -> None:
    """And the only one that may talk is the owner."""
    telegram = read(config, f"[channels.telegram]\nallow_from = {ids}").channels.telegram
    assert telegram.allow_from == (123,)
    assert telegram.owners == (123,)


def test_named_owners_are_the_owners(config: Path) -> None:
    """Several may talk, one owns; nobody allowed, nobody owns."""
    telegram = read(config, "[channels.telegram]\nallow_from = [1, 2]\nowner = ['2']").channels.telegram
    assert telegram.owners == (2,)
    assert Settings().channels.telegram.owners == ()


@given(st.lists(st.integers(1, 10**12), max_size=1), st.sampled_from(["json", "quoted", "commas"]))
def test_lists_come_from_the_environment_as_json_or_with_commas(ids: list[int], form: str) -> None:
    """Empty ones, too."""
    text = {"json": json.dumps(ids), "quoted": json.dumps([f" {i} " for i in ids]), "commas": " , ".join(map(str, ids))}
    settings = load(Path("none.toml"), {"NANOMEM__CHANNELS__TELEGRAM__ALLOW_FROM": text[form]})
    assert settings.channels.telegram.allow_from == tuple(ids)


VALUES = st.fixed_dictionaries(
    {},
    optional={
        "agents.defaults.model": st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1),
        "agents.defaults.memory_window": st.integers(0, 10**6),
        "agents.defaults.temperature": st.floats(0, 2),
        "agents.defaults.request_timeout_s": st.integers(0, 10**6) | st.floats(0, 10**6),
        "agents.dream.enabled": st.booleans(),
        "agents.consolidation.soft_ratio": st.floats(0.001, 1),
        "memory.remote": st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"])),
        "log.format": st.sampled_from(["auto", "console", "json"]),
        "providers.openai.api_base": st.sampled_from(["", "http://127.0.0.1:1/v1"]),
        "providers.openai.organization": st.from_regex(r"[a-z]+", fullmatch=True),
    },
)


def value_of(settings: Settings, key: str) -> object:
    value: Any = settings
    *path, last = key.split(".")
    for name in path:
        value = value[name] if isinstance(value, dict) else getattr(value, name)
    return getattr(value, last, None) if hasattr(value, last) else value.options[last]


def nested(values: dict[str, object]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *path, last = key.split(".")
        at = tree
        for name in path:
            at = at.setdefault(name, {})
        at[last] = value
    return tree


@given(VALUES)
def test_what_is_written_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, values: dict[str, object]) -> None:
    """By a file, by the environment, by `set_values` on the template, and by what `masked` shows."""
    config = tmp_path_factory.mktemp("settings") / "config.toml"
    config.write_text(tomlkit.dumps(nested(values)), encoding="utf-8")
    from_file = load(config, {})
    assert {key: value_of(from_file, key) for key in values} == values

    texts = {key: json.dumps(value) if not isinstance(value, str) else value for key, value in values.items()}
    environ = {"NANOMEM__" + key.upper().replace(".", "__"): text for key, text in texts.items()}
    assert load(Path("none.toml"), environ) == from_file

    config.write_bytes(TEMPLATE.read_bytes())
    set_values(config, texts)
    assert load(config, {}) == from_file

    config.write_text(masked(from_file), encoding="utf-8")
    assert load(config, {}) == from_file


@pytest.mark.parametrize("data", [b"\xef\xbb\xbf[log]\nlevel = 'debug'\n", b"[log]\r\nlevel = 'debug'\r\n"])
def test_files_of_other_systems_are_read(config: Path, data: bytes) -> None:
    """A byte order mark and CRLF are no errors, and a change keeps the file readable."""
    config.write_bytes(data)
    assert load(config, {}).log.level == "debug"
    set_value(config, "log.format", "json")
    assert load(config, {}).log.format == "json"


def test_a_file_that_cannot_be_read_is_one_clear_line(config: Path) -> None:
    """Bytes that are no text, a folder."""
    config.write_bytes(b"[log]\nlevel = '\xff'\n")
    with pytest.raises(Misuse, match=r"cannot be read.*UTF-8"):
        load(config, {})
    config.unlink()
    config.mkdir()
    with pytest.raises(Misuse, match="cannot be read"):
        load(config, {})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_the_right_to_read_it_is_one_clear_line(config: Path) -> None:
    """It is not taken for a missing one."""
    config.write_text("")
    config.chmod(0)
    with pytest.raises(Misuse, match="cannot be read"):
        load(config, {})


def test_a_secret_hides(config: Path) -> None:
    """In repr, str, formats and what `config show` prints; a reference does not."""
    settings = read(config, f'[providers.openai]\napi_key = "{KEY}"\n[channels.telegram]\ntoken = "env:sk-oops"')
    for shown in (repr(settings), str(settings), f"{settings.providers['openai'].api_key}", masked(settings)):
        assert KEY not in shown
        assert "sk-oops" not in shown
    assert "env:ANTHROPIC_API_KEY" in masked(settings)


def test_a_secret_is_looked_up_when_it_is_used(tmp_path: Path) -> None:
    """In the variable or file it names, white space around it removed."""
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    assert Secret("env:THE_KEY").reveal({"THE_KEY": f" {KEY} "}) == KEY
    assert Secret(f"file:{file}").reveal({}) == KEY
    assert Secret(KEY).reveal({}) == KEY
    assert Secret("").reveal({}) == ""


@pytest.mark.parametrize("reference", ["env:NOT_SET", "file:/not/there", "file:/"])
def test_a_secret_that_is_missing_is_named(reference: str) -> None:
    """The variable or file, not what was looked for in it."""
    with pytest.raises(Misuse) as refused:
        Secret(reference).reveal({"NOT_SET": " "})
    assert reference.partition(":")[2] in refused.value.text


@pytest.mark.parametrize(
    ("reference", "remedy"), [("env:NOT_SET", "Set it"), ("file:/not/there", "Put the secret into it")]
)
def test_a_missing_secret_names_its_setting_and_what_to_do(config: Path, reference: str, remedy: str) -> None:
    """Wherever it is written: a setting, a further key of a provider, a variable; and where it is a default."""
    text = f'[channels.telegram]\ntoken = "{reference}"\n[providers.azure]\nextra_headers = {{ x = "{reference}" }}'
    settings = read(config, text, NANOMEM__PROVIDERS__OPENAI__API_KEY=reference)

    def said(reveal: Callable[[], object]) -> str:
        with pytest.raises(Misuse, match=remedy) as refused:
            reveal()
        return refused.value.text.partition(" = ")[0]

    assert said(lambda: settings.channels.telegram.token.reveal({})) == "channels.telegram.token"
    assert said(lambda: settings.providers["azure"].extra({})) == "providers.azure.extra_headers.x"
    assert said(lambda: settings.providers["openai"].api_key.reveal({})) == "providers.openai.api_key"
    for secret in (Settings().channels.telegram.token, Settings().providers["anthropic"].api_key):
        with pytest.raises(Misuse, match=secret.setting):
            secret.reveal({})


def test_secrets_inside_further_keys_hide_and_reach_the_provider(config: Path) -> None:
    """By their name, or by being a reference."""
    text = f"""
        [providers.azure]
        azure_ad_token = "{KEY}1"
        api_version = "2026-01-01"
        extra_headers = {{ X-Auth = "{KEY}2" }}
        project = "env:PROJECT"
    """
    settings = read(config, text, PROJECT=f"{KEY}3")
    assert KEY not in masked(settings) + repr(settings)
    assert settings.providers["azure"].extra({"PROJECT": f"{KEY}3"}) == {
        "azure_ad_token": f"{KEY}1",
        "api_version": "2026-01-01",
        "extra_headers": {"X-Auth": f"{KEY}2"},
        "project": f"{KEY}3",
    }


def test_further_keys_from_the_environment_are_json_where_they_can_be(config: Path) -> None:
    """And hide as they do in the file; a number in the file's quotes stays a text."""
    variables = {"MAX_RETRIES": "3", "ORGANIZATION": "acme", "EXTRA_HEADERS": json.dumps({"X-Api-Key": KEY})}
    environ = {f"NANOMEM__PROVIDERS__OPENAI__{name}": value for name, value in variables.items()}
    settings = read(config, '[providers.openai]\nproject = "7"', **environ)
    assert KEY not in masked(settings)
    assert settings.providers["openai"].extra({}) == {
        "max_retries": 3,
        "organization": "acme",
        "extra_headers": {"X-Api-Key": KEY},
        "project": "7",
    }


def test_all_secrets_can_be_listed(config: Path) -> None:
    """Those that are there: missing ones are left out, names and passwords in addresses count."""
    text = '[providers.openai]\napi_key = "env:K"\n[memory]\nremote = "https://ann:pass-word@example.org/x.git"'
    settings = read(config, text)
    assert set(secrets(settings, {"K": KEY})) == {"ann:pass-word", KEY}
    assert "pass-word" not in masked(settings)


def test_the_provider_is_told_from_the_model() -> None:
    """By its prefix; a provider without settings leaves everything to litellm."""
    assert str(Settings().provider("anthropic/claude").api_key) == "env:ANTHROPIC_API_KEY"
    assert Settings().provider("mistral/large").api_key == Secret("")


def test_setting_a_value_keeps_comments_order_and_spelling(config: Path) -> None:
    """Only the one value changes, in the spelling that is there."""
    before = "# mine\n[agents.defaults]\nmemoryWindow = 7  # few\nmodel = 'a'\n\n[log]\nlevel = 'info'\n"
    config.write_text(before)
    set_value(config, "agents.defaults.memory_window", "9")
    assert config.read_text() == before.replace("= 7", "= 9")
    assert config.stat().st_mode & 0o777 == 0o600


def test_a_wrong_file_can_be_mended(config: Path) -> None:
    """One value at a time, if it is the only wrong one."""
    config.write_text("[agents.defaults]\nmemory_window = 'few'\n")
    set_value(config, "agents.defaults.memory_window", "9")
    assert load(config, {}).agents.defaults.memory_window == 9
    config.write_text("log = 'info'\n")
    with pytest.raises(Misuse, match="not a table"):
        set_value(config, "log.level", "debug")


def test_setting_a_value_makes_what_is_missing(config: Path) -> None:
    """The file, the tables, in camel case too."""
    set_value(config, "agents.dream.quietS", "60")
    set_value(config, "providers.openai.apiKey", KEY)
    set_value(config, "providers.openai.organization", "acme")
    settings = load(config, {})
    assert settings.agents.dream.quiet_s == 60
    assert settings.providers["openai"].api_key.reveal({}) == KEY
    assert settings.providers["openai"].options == {"organization": "acme"}
    assert config.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("agents.defaults.modle", "x"),
        ("agents.defaults", "x"),
        ("", "x"),
        ("agents.defaults.max_messages", "many"),
        ("agents.defaults.context_window_tokens", "100"),
        ("channels.telegram.owner", "5"),
        ("providers.openai.organization", "\udcff"),
    ],
)
def test_a_change_that_would_be_wrong_changes_nothing(config: Path, key: str, value: str) -> None:
    """The whole file is checked before it is written."""
    before = TEMPLATE.read_bytes()
    config.write_bytes(before)
    with pytest.raises(Misuse):
        set_value(config, key, value)
    assert config.read_bytes() == before
    assert list(config.parent.iterdir()) == [config]


def test_values_that_need_each_other_are_set_together(config: Path) -> None:
    """Two who may talk and the one who owns."""
    with pytest.raises(Misuse, match="owner"):
        set_value(config, "channels.telegram.allow_from", "1,2")
    set_values(config, {"channels.telegram.allow_from": [1, 2], "channels.telegram.owner": [2]})
    assert load(config, {}).channels.telegram.owners == (2,)


def test_a_change_that_cannot_be_written_changes_nothing(config: Path) -> None:
    """Something is in the way of the new file."""
    config.write_text("")
    config.with_name(".config.toml.draft").mkdir()
    with pytest.raises(CannotStore):
        set_value(config, "log.level", "debug")
    assert config.read_text() == ""


def test_the_machines_time_zone() -> None:
    """From TZ where it names one; what it does not know is no reason to stop."""
    assert zone("auto", {"TZ": ":Europe/Berlin"}) == ZoneInfo("Europe/Berlin")
    assert zone("auto", {"TZ": "/usr/share/zoneinfo/Europe/Berlin"}) == ZoneInfo("Europe/Berlin")
    assert zone("UTC", {}) is UTC
    assert zone("auto", {"TZ": "nowhere"}) is not None
