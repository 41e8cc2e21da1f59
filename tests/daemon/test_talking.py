"""People, groups and a model at a daemon that runs all the while; each story has chats of its own."""

import base64
import re
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from typing import Any

import pytest
import pytest_asyncio

from tests.daemon.running import OWNER, World, a_world
from tests.emulators import Answer, Cut, Empty, EmptyStream, Fault, Stall
from tests.emulators.openai import Reply

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODEL = "openai/gpt-test"
BOT = "@nanomem_bot"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """One daemon for all of them; in the end it stops cleanly, and nothing waits."""
    async with a_world(tmp_path_factory.mktemp("talking")) as world:
        life = await world.daemon(MODEL)
        yield world
        running = await world.messages_in_flight()
        assert (running["waiting"], running["set_aside"]) == (0, 0)
        await life.stops()
        assert await world.messages_in_flight() == {"waiting": 0, "undelivered": 0, "set_aside": 0}


@pytest.fixture
def world(served: World) -> Iterator[World]:
    """Without what an earlier story told the model."""
    served.model.script(lambda asked: Answer("Fine."))
    yield served
    served.model.release()


def newest(asked: dict[str, Any]) -> str:
    """The last thing a person said, with all that stands around it."""
    content = next(message["content"] for message in reversed(asked["messages"]) if message["role"] == "user")
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


async def test_the_placeholder_does_not_wait_for_the_model(world: World) -> None:
    """A daemon that has just started shows it while its model library is still being loaded."""
    stood: list[list[str]] = []

    def decide(asked: dict[str, Any]) -> Answer:
        stood.append(world.telegram.visible(9))
        return Answer("Here I am.")

    world.model.script(decide)
    world.telegram.say("anybody there?", chat=9)
    await world.settled(9, "anybody there?")
    assert stood == [["…"]]
    assert world.telegram.visible(9) == ["Here I am."]


async def test_twenty_chats_at_once(world: World) -> None:
    """Two hundred messages: each is read in one turn, in order, and its answer stands in its chat once."""
    world.model.script(lambda asked: Answer("Read " + ", ".join(re.findall(r"c\d+m\d+", newest(asked)))))
    told = {chat: [f"c{chat}m{n}" for n in range(10)] for chat in range(100, 120)}
    for n in range(10):
        for chat, texts in told.items():
            world.telegram.say(texts[n], chat)
    await world.until(lambda: all(world.is_settled(chat, texts) for chat, texts in told.items()))
    for chat, texts in told.items():
        world.check(chat, texts)
        assert ", ".join(end["content"].removeprefix("Read ") for end in world.ends(f"telegram:{chat}")) == ", ".join(
            texts
        )
    assert not world.telegram.unconfirmed


async def test_a_group_is_heard_where_it_speaks_to_the_bot(world: World) -> None:
    """By mention or reply, with the names of who speaks; the group has a space of its own."""
    world.telegram.say("I like soup", chat=-1001, name="Ann")
    world.telegram.say(f"{BOT} where do we meet?", chat=-1001, name="Ann")
    await world.settled(-1001, "where do we meet?")
    assert "Ann: where do we meet?" in newest(world.model.requests[-1])
    [answer] = [sent for sent in world.telegram.messages(-1001) if sent.text == "Fine."]
    world.telegram.say("and when?", chat=-1001, user=7, name="Bob", reply_to=answer.message_id)
    await world.settled(-1001, "and when?")
    assert "Bob: and when?" in newest(world.model.requests[-1])
    assert "Ann: where do we meet?" in str(world.model.requests[-1]["messages"])
    assert "soup" not in str(world.model.requests)
    folder = world.home / "spaces" / "telegram%3A-1001"
    assert world.log_of("telegram:-1001") == folder / "sessions" / "telegram%3A-1001.jsonl"
    senders = [record["sender"] for record in world.said("telegram:-1001") if record["role"] == "user"]
    assert senders == [{"id": "42", "name": "Ann"}, {"id": "7", "name": "Bob"}]
    assert world.said("telegram:-1001")[2]["reply_to"] == "nanomem: Fine."


async def test_a_topic_is_a_session_of_its_own_in_the_groups_space(world: World) -> None:
    """It knows nothing of the group's other talk, and is answered in its place."""
    world.telegram.say(f"{BOT} bananas are blue", chat=-1002)
    await world.settled(-1002, "bananas are blue")
    world.telegram.say(f"{BOT} what is blue?", chat=-1002, topic=5)
    await world.settled(-1002, "what is blue?", key="telegram:-1002:5", topic=5)
    assert "bananas" not in str(world.model.requests[-1])
    path = world.home / "spaces" / "telegram%3A-1002" / "sessions" / "telegram%3A-1002%3A5.jsonl"
    assert world.log_of("telegram:-1002:5") == path
    assert world.heard("telegram:-1002:5") == ["what is blue?"]
    assert world.heard("telegram:-1002") == ["bananas are blue"]


async def test_a_photo_is_seen_and_a_document_kept(world: World) -> None:
    """The model is shown the picture, and told where the document is."""
    world.telegram.say(chat=100, photo=PNG, caption="what is this?")
    await world.settled(100, "what is this?")
    parts = next(m["content"] for m in reversed(world.model.requests[-1]["messages"]) if m["role"] == "user")
    assert [part["image_url"]["url"] for part in parts if part["type"] == "image_url"] == [
        f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    ]
    notes = world.telegram.add_file(b"Buy milk.", "../../notes.txt", media_type="text/plain")
    world.telegram.say(chat=100, document=notes, caption="keep this")
    await world.settled(100, "keep this")
    [path] = re.findall(r"files/\S*notes\.txt", newest(world.model.requests[-1]))
    assert (world.home / "spaces" / "telegram%3A100" / path).read_bytes() == b"Buy milk."


async def test_an_edited_message_is_a_new_one_that_says_so(world: World) -> None:
    """The model is told."""
    world.telegram.say("I am 35", chat=101)
    await world.settled(101, "I am 35")
    world.telegram.say("I am 36", chat=101, edited=True)
    await world.settled(101, "I am 36")
    assert "edited" in newest(world.model.requests[-1])
    assert world.said("telegram:101")[-2]["edited"] is True


async def test_an_album_is_one_message(world: World) -> None:
    """Its pictures come together, with the one caption, and get one answer."""
    before = len(world.ends("telegram:102"))
    for caption in ("our garden", None, None):
        world.telegram.say(chat=102, photo=PNG, media_group="g1", caption=caption)
    await world.until(lambda: len(world.ends("telegram:102")) > before and world.is_settled(102, ["our garden"]))
    record = world.said("telegram:102")[-2]
    assert (record["content"], len(record["files"])) == ("our garden", 3)
    assert str(world.model.requests[-1]["messages"]).count("data:image/png") == 3
    assert len(world.ends("telegram:102")) == before + 1


async def test_stop_keeps_what_was_written_and_retry_takes_it_up(world: World) -> None:
    """The person sees the beginning, then `Stopped.`; the message is answered later without being written again."""
    world.model.script(lambda asked: Stall(4, Answer(chunks=["One. ", "Two. ", "Three. ", "Four."])))
    world.telegram.say("count", chat=7)
    await world.shows("One. Two. Three.", 7)
    world.telegram.say("/stop", chat=7)
    await world.shows("Stopped.", 7)
    assert world.answers(7) == ["One. Two. Three.", "Stopped."]
    world.model.script(lambda asked: Answer("One to four."))
    world.telegram.say("/retry", chat=7)
    await world.shows("One to four.", 7)
    world.telegram.say("/retry", chat=7)
    await world.shows("Nothing to retry.", 7)
    assert [(r["role"], r.get("end")) for r in world.said("telegram:7")] == [
        ("user", None),
        ("assistant", "stopped"),
        ("assistant", "answer"),
    ]
    assert world.said("telegram:7")[2]["retries"] == world.said("telegram:7")[0]["turn"]


async def test_new_forgets_the_conversation(world: World) -> None:
    """Also while a turn runs, which is stopped; what was said is archived."""
    save = [("save_memory", {"history_entry": "They talked.", "memory_update": ""})]
    world.model.script(lambda asked: Answer(tool_calls=save) if asked.get("tool_choice") else Answer("Fine."))
    world.telegram.say("the word is xylophone", chat=8)
    await world.settled(8, "the word is xylophone")
    world.model.hold()
    asked = len(world.model.requests)
    world.telegram.say("and more", chat=8)
    await world.model.wait_for(lambda: len(world.model.requests) > asked)
    world.telegram.say("/new", chat=8)
    await world.shows("(stopped)", 8)
    world.model.release()
    await world.shows("New session started.", 8)
    world.telegram.say("what is the word?", chat=8)
    await world.settled(8, "what is the word?")
    assert "xylophone" not in str(world.model.requests[-1])
    assert world.answers(8) == ["Fine.", "(stopped)", "New session started.", "Fine."]
    assert [record["through"] for record in world.records("telegram:8") if record.get("_type") == "reset"] == [4]


async def test_commands_are_answered_outside_the_conversation(world: World) -> None:
    """Without a placeholder; also the one that is not known, but not the one for another bot."""
    asked = len(world.model.requests)
    for said, reply in [
        ("/status", "Model: openai/gpt-test"),
        ("/help", "/retry: "),
        ("/start", "/retry: "),
        ("/Help@nanomem_bot", "/retry: "),
        ("/statsu", "Unknown command /statsu. Did you mean /status? /help lists all."),
        ("/stop", "Nothing is running."),
        ("/retry", "Nothing to retry."),
    ]:
        before = len(world.telegram.messages(OWNER))
        world.telegram.say(said, OWNER)
        await world.until(lambda seen=before: len(world.telegram.messages(OWNER)) > seen)  # type: ignore[misc]
        assert reply in world.telegram.messages(OWNER)[before].history[0]
    world.telegram.say("/help@another_bot", OWNER)
    world.telegram.say("/etc/hosts is a file", OWNER)
    await world.settled(OWNER, "/etc/hosts is a file")
    assert world.heard() == ["/etc/hosts is a file"]
    assert len(world.model.requests) == asked + 1
    menu = {command["command"] for command in world.telegram.commands()}
    assert {"new", "stop", "retry", "status", "help"} <= menu


async def test_telegram_asks_to_wait(world: World) -> None:
    """429 for the placeholder, and for the answer: it comes after the wait, once."""
    world.telegram.fail_next("sendMessage", 429, retry_after=1)
    world.telegram.fail_next("editMessageText", 429, retry_after=1)
    world.telegram.say("hurry", chat=103)
    await world.settled(103, "hurry")
    edits = [call.at for call in world.telegram.calls_of("editMessageText") if call.params["chat_id"] == 103]
    assert edits[-1] - edits[-2] >= 1


FAULTS: dict[str, tuple[Reply, str]] = {
    "fault-500": (Fault.server_error(), "cannot be reached"),
    "fault-429": (Fault.rate_limited(1), "asked too often"),
    "fault-quota": (Fault.quota(), "no credit"),
    "fault-key": (Fault.unauthorized(), "refused the key"),
    "fault-cut": (Cut(3), "in trouble"),
    "fault-long": (Fault.context_length(), "too long"),
    "fault-page": (Fault.bad_gateway(), "cannot be reached"),
    "fault-text": (Fault.not_json(), "empty answer"),
    "fault-choices": (Empty(), "empty answer"),
    "fault-stream": (EmptyStream(), "empty answer"),
}


async def test_a_model_in_trouble_is_told_and_retry_works(world: World) -> None:
    """At the same time in ten chats: the person hears what is wrong, the message stays, no chat holds up another."""
    chats = dict(zip(FAULTS, range(104, 120), strict=False))
    world.model.script(lambda asked: FAULTS[re.findall(r"fault-\w+", newest(asked))[-1]][0])
    for fault, chat in chats.items():
        world.telegram.say(f"please {fault}", chat)
    for fault, chat in chats.items():
        await world.settled(chat, f"please {fault}")
        assert FAULTS[fault][1] in world.answers(chat)[-1], (fault, world.answers(chat)[-1])
        assert world.ends(f"telegram:{chat}")[-1]["end"] == "failed"
    logged = [event["reason"] for event in world.lives[-1].events("turn.failed")]
    assert all(any(said in reason for reason in logged) for _, said in FAULTS.values()), logged
    world.model.script(lambda asked: Answer("All is well again."))
    for chat in chats.values():
        world.telegram.say("/retry", chat)
    for fault, chat in chats.items():
        key = f"telegram:{chat}"
        await world.until(lambda at=key: world.ends(at)[-1]["end"] == "answer")  # type: ignore[misc]
        await world.settled(chat, f"please {fault}")
        assert world.answers(chat)[-1] == "All is well again."
        assert world.heard(key).count(f"please {fault}") == 1


async def test_a_passing_fault_is_not_told(world: World) -> None:
    """It is asked again."""
    world.model.queue(Fault.server_error(), Answer("There."))
    world.telegram.say("hello?", chat=100)
    await world.settled(100, "hello?")
    assert world.answers(100)[-1] == "There."


async def test_an_answer_is_seen_growing(world: World) -> None:
    """At most one edit a second, each longer than the last; the whole at the end."""
    words = [f"word{n} " for n in range(25)]
    world.model.script(lambda asked: Answer(chunks=words, chunk_delay_s=0.12))
    world.telegram.say("tell me much", chat=101)
    await world.settled(101, "tell me much")
    [message] = [sent for sent in world.telegram.messages(101) if sent.text.endswith("word24")]
    edits = [
        call.at
        for call in world.telegram.calls_of("editMessageText")
        if (call.params["chat_id"], call.params["message_id"]) == (101, message.message_id)
    ]
    shown = message.history[1:]
    assert len(shown) >= 3
    assert all(later.startswith(earlier) for earlier, later in pairwise(shown))
    growing = edits[:-1]
    assert all(later - earlier > 0.9 for earlier, later in pairwise(growing))
