"""What a daemon does at its start, at its end, and over many lives; who may talk to it at all."""

import json
import re
import shutil
from pathlib import Path

from tests.daemon.running import CHECKOUT, OWNER, World
from tests.emulators import Answer

MODEL = "openai/gpt-test"
NOTED = "Noted: it is kept in our conversation."


async def test_a_stranger_gets_nothing(world: World) -> None:
    """No answer, no typing, no download, and a line in the log for each try."""
    life = await (await world.daemon()).ready()
    world.telegram.say("hello", chat=666)
    world.telegram.say(chat=666, voice=b"ogg")
    world.telegram.say("/start ABCDEFGHJK", chat=666)
    world.telegram.say("trust me", chat=666, forward_from=OWNER)
    world.telegram.say("@nanomem_bot hello", chat=-1001, user=666)
    world.telegram.say("hello", chat=667, username="ann")
    world.telegram.press("yes", 1, chat=666)
    await life.until("telegram.stranger", 7)
    world.telegram.say("my bike is green")
    await world.settled(OWNER, "my bike is green")
    assert len(life.events("telegram.stranger")) == 7
    assert {call.params.get("chat_id") for call in world.telegram.calls} <= {None, OWNER}
    assert not world.telegram.calls_of("getFile")
    assert not world.telegram.calls_of("answerCallbackQuery")
    assert world.log_of("telegram:666") is None
    await life.stops()


async def test_pairing_lets_somebody_in(world: World) -> None:
    """The first one is the owner, also in the next life; a code works once, and config.toml keeps what people wrote."""
    nobody = {"channels__telegram__allow_from": "", "channels__telegram__owner": ""}
    life = await (await world.daemon(**nobody)).ready()
    code, out, _ = await world.nanomem("pair", **nobody)
    assert code == 0
    world.telegram.say("/start WRONGCODE9", chat=99)
    world.telegram.say(f"/start {out.strip()}", chat=99)
    await world.shows("Welcome", 99)
    world.telegram.say(f"/start {out.strip()}", chat=98)
    world.telegram.say("my bike is green", chat=99)
    await world.settled(99, "my bike is green")
    assert world.log_of("telegram:99") == world.home / "workspace" / "sessions" / "telegram%3A99.jsonl"
    await life.until("telegram.stranger", 2)
    assert not world.telegram.messages(98)
    await life.stops()

    template = (CHECKOUT / "workspace-template" / "config.toml").read_text().splitlines()
    now = (world.home / "config.toml").read_text().splitlines()
    changed = [(old, new) for old, new in zip(template, now, strict=True) if old != new]
    assert [re.sub(r" +#", " #", new) for _, new in changed] == [
        "allow_from = [99] # numeric user ids that may talk to it; empty = nobody",
        "owner = [99] # those of them that are the owner; may be left empty only while",
    ]
    life = await (await world.daemon(**nobody)).ready()
    world.telegram.say("what is green?", chat=99)
    await world.settled(99, "what is green?")
    assert "my bike is green" in world.answers(99)[-1]
    await life.stops()


async def test_a_group_that_moves_keeps_session_and_space(world: World) -> None:
    """Under its new id, after a restart, and after what the daemon needs to go on is gone."""
    key, told = "telegram:-5", ["one", "two", "three", "four"]
    for life, text in enumerate(told):
        if life == 3:
            shutil.rmtree(world.home / "state")
        daemon = await (await world.daemon()).ready()
        if life == 1:
            world.telegram.migrate(-5, -1005)
        world.telegram.say(f"@nanomem_bot {text}", chat=-1005 if life else -5)
        await world.until(lambda n=life: len(world.ends(key)) > n)  # type: ignore[misc]
        await world.until(lambda: not world.telegram.unconfirmed)
        await daemon.stops()
    ends = [end["content"] for end in world.ends(key)]
    assert (world.answers(-5), world.answers(-1005)) == (ends[:1], ends[1:])
    assert world.log_of(key) == world.home / "spaces" / "telegram%3A-5" / "sessions" / "telegram%3A-5.jsonl"
    assert world.heard(key) == told
    aliases = [record for record in world.records(key) if record.get("_type") == "alias"]
    assert [alias["key"] for alias in aliases] == ["telegram:-1005"]
    assert [folder.name for folder in (world.home / "spaces").iterdir()] == ["telegram%3A-5"]


async def test_an_answer_goes_to_where_the_group_has_moved(world: World) -> None:
    """Sending to the old id tells the new one."""
    life = await (await world.daemon()).ready()
    world.telegram.delays["sendMessage"] = 0.3
    world.telegram.say("@nanomem_bot one", chat=-6)
    await world.until(lambda: world.telegram.messages(-6))
    world.telegram.migrate(-6, -1006)
    await world.shows(NOTED, -1006)
    assert world.answers(-6) == []
    await life.stops()


async def test_a_clean_stop_loses_nothing(world: World) -> None:
    """SIGTERM with fifty messages waiting: exit 0; the next life answers them, each once."""
    told = {chat: [f"message {n} of {chat}" for n in range(10)] for chat in range(100, 105)}
    world.telegram.delays["sendMessage"] = 1
    life = await (await world.daemon()).ready()
    for chat, texts in told.items():
        world.telegram.say(texts[0], chat)
    await world.until(lambda: len(world.telegram.calls_of("sendMessage")) == len(told))
    for chat, texts in told.items():
        for text in texts[1:]:
            world.telegram.say(text, chat)
    await world.until(lambda: not world.telegram.unconfirmed)
    await life.stops()
    world.telegram.delays.clear()
    waiting = (await world.messages_in_flight())["waiting"]
    assert waiting == 45
    life = await (await world.daemon()).ready()
    await world.until(lambda: all(world.is_settled(chat, texts) for chat, texts in told.items()))
    await life.stops()
    for chat, texts in told.items():
        world.check(chat, texts)
    assert await world.messages_in_flight() == {"waiting": 0, "undelivered": 0, "set_aside": 0}


async def test_a_second_daemon_is_refused(world: World) -> None:
    """It names the first one, which goes on."""
    life = await (await world.daemon()).ready()
    code, out, err = await world.nanomem("run")
    assert (code, out) == (1, "")
    assert f"pid {life.pid}" in err
    assert err.count("\n") == 1
    world.telegram.say("hello")
    await world.settled(OWNER, "hello")
    await life.stops()


async def test_an_update_delivered_again_is_answered_once(world: World) -> None:
    """Also in the next life."""
    life = await (await world.daemon()).ready()
    world.telegram.say("my bike is green")
    await world.settled(OWNER, "my bike is green")
    world.telegram.redeliver()
    await world.until(lambda: not world.telegram.unconfirmed)
    await life.stops()
    world.telegram.redeliver()
    life = await (await world.daemon()).ready()
    world.telegram.say("what is green?")
    await world.settled(OWNER, "what is green?")
    assert "my bike is green" in world.answers()[-1]
    await life.stops()
    world.check(OWNER, ["my bike is green", "what is green?"])


async def test_a_turn_that_nobody_remembers_is_closed(world: World) -> None:
    """A log without an end, and nothing in flight: it has failed, and the conversation goes on."""
    life = await (await world.daemon()).ready()
    world.telegram.say("my bike is green")
    await world.settled(OWNER, "my bike is green")
    await world.until(lambda: not world.telegram.unconfirmed)
    await life.kill()
    log = world.log_of(f"telegram:{OWNER}")
    assert log is not None
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    shutil.rmtree(world.home / "state")
    life = await (await world.daemon()).ready()
    assert [end["end"] for end in world.ends()] == ["failed"]
    world.telegram.say("what is green?")
    await world.shows("my bike is green")
    await life.stops()
    assert [end["end"] for end in world.ends()] == ["failed", "answer"]
    assert [record["n"] for record in world.said()] == [1, 2, 3, 4]


async def test_the_daily_limit_outlives_the_daemon(world: World) -> None:
    """What was spent today is counted on."""
    limited = {"agents__defaults__daily_token_limit": "100"}
    world.model.script(lambda asked: Answer("A dear answer."))
    life = await world.daemon(MODEL, **limited)
    world.telegram.say("one")
    await world.settled(OWNER, "one")
    await life.kill()
    life = await (await world.daemon("offline", **limited)).ready()
    world.telegram.say("two")
    await world.shows("limit of 100 tokens")
    assert len(world.model.requests) == 1
    code, out, _ = await world.nanomem("status", "--json")
    assert code == 0
    assert json.loads(out)["today"]["prompt_tokens"] > 100
    await life.kill()


async def test_a_home_of_one_life_is_private(world: World) -> None:
    """Folders are the owner's alone, and so are files."""
    life = await (await world.daemon()).ready()
    world.telegram.say("my bike is green", chat=7)
    await world.settled(7, "my bike is green")
    await life.stops()

    def mode(path: Path) -> str:
        return oct(path.lstat().st_mode & 0o777)

    assert {mode(path) for path in world.home.rglob("*") if path.is_dir()} == {"0o700"}
    assert {mode(path) for path in world.home.rglob("*") if path.is_file()} == {"0o600"}
