"""Updates as Telegram sends them, and as it never should."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.channels.telegram import updates
from nanomem.channels.telegram.updates import Broken, GroupPolicy, Me
from nanomem.messages import Attachment, Inbound, Sender

ME = Me(7, "nanomem_bot")
ANN = {"id": 42, "is_bot": False, "first_name": "Ann", "last_name": "Lee"}
BOB = {"id": 43, "is_bot": False, "first_name": "Bob"}
GROUP = {"id": -100, "type": "supergroup", "title": "Family"}
VIDEO = {"file_id": "f", "duration": 12}


def update(kind: str = "message", **fields: Any) -> dict[str, Any]:
    """A private message of Ann's; `None` takes a field away, `sent_by` is the sender."""
    message: dict[str, Any] = {
        "message_id": 5,
        "date": 1_700_000_000,
        "chat": {"id": 42, "type": "private"},
        "from": ANN,
    }
    message |= {"from" if key == "sent_by" else key: value for key, value in fields.items()}
    return {"update_id": 1000, kind: {key: value for key, value in message.items() if value is not None}}


def heard(raw: object, policy: GroupPolicy = "mention", **options: Any) -> Inbound | None:
    return updates.inbound(raw, ME, **{"owner": True, "policy": policy, "aliases": {}, **options})


def message(raw: object, policy: GroupPolicy = "mention", **options: Any) -> Inbound:
    found = heard(raw, policy, **options)
    assert found is not None
    return found


def test_a_private_message() -> None:
    """All that a plain text carries."""
    assert heard(update(text=" Hello ")) == Inbound(
        address="telegram:42",
        id="1000",
        text="Hello",
        sender=Sender("42", "Ann Lee"),
        sent_at=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        from_owner=True,
    )


def test_a_topic_is_an_address_of_its_own() -> None:
    """A thread of replies that is no topic is not."""
    assert (
        message(update(chat=GROUP, text="/x", message_thread_id=9, is_topic_message=True)).address == "telegram:-100:9"
    )
    assert message(update(chat=GROUP, text="/x", message_thread_id=9)).address == "telegram:-100"


def test_a_group_that_moved_keeps_its_address() -> None:
    """Its topics too."""
    aliases = {"-100": "-5"}
    assert message(update(chat=GROUP, text="/x"), aliases=aliases).address == "telegram:-5"
    topic = update(chat=GROUP, text="/x", message_thread_id=9, is_topic_message=True)
    assert message(topic, aliases=aliases).address == "telegram:-5:9"


def test_both_halves_of_a_migration_say_the_same() -> None:
    """One comes from the old group, one from the new."""
    assert updates.migration(update(chat={"id": -5, "type": "group"}, migrate_to_chat_id=-100)) == (-5, -100)
    assert updates.migration(update(chat=GROUP, migrate_from_chat_id=-5)) == (-5, -100)
    assert updates.migration(update(text="hi")) is None


@pytest.mark.parametrize(
    ("text", "for_bot"),
    [
        ("hello", None),
        ("@nanomem_bot hello", "hello"),
        ("@Nanomem_Bot, hello", "hello"),
        ("hello @nanomem_bot", "hello"),
        ("hello @nanomem_bot there", "hello @nanomem_bot there"),
        ("@nanomem_bot", "@nanomem_bot"),
        ("@nanomem_bot /new", "/new"),
        ("@nanomem_bottle hello", None),
        ("me@nanomem_bot", None),
        ("/new", "/new"),
        ("/new@nanomem_bot", "/new"),
        ("/Recall@NANOMEM_bot tea  time", "/Recall tea  time"),
        ("/new@another_bot", None),
        ("/etc/hosts is a file", None),
    ],
)
def test_in_a_group_it_listens_when_named(text: str, for_bot: str | None) -> None:
    """By its name or by a command; its name at the ends is not part of the words."""
    found = heard(update(chat=GROUP, text=text))
    assert (found and found.text) == for_bot


def test_in_a_group_it_listens_to_replies_to_it() -> None:
    """Not to replies to others, nor to what begins a topic that the bot made."""
    said = {"message_id": 1, "from": {"id": 7, "is_bot": True, "first_name": "nanomem"}, "text": "Hi!"}
    assert message(update(chat=GROUP, text="and you?", reply_to_message=said)).reply_to == "nanomem: Hi!"
    assert heard(update(chat=GROUP, text="and you?", reply_to_message={**said, "from": BOB})) is None
    topic = {"message_id": 1, "from": said["from"], "forum_topic_created": {"name": "x"}}
    assert heard(update(chat=GROUP, text="and you?", reply_to_message=topic)) is None


def test_group_policies() -> None:
    """All: all but what is for another bot. Off: nothing, while private chats go on."""
    assert heard(update(chat=GROUP, text="hello"), "all")
    assert heard(update(chat=GROUP, text="/x@another_bot"), "all") is None
    assert heard(update(chat=GROUP, text="@nanomem_bot hello"), "off") is None
    assert heard(update(text="hello"), "off")


def test_an_item_of_an_album_meant_for_the_bot() -> None:
    """Only one item of an album has the caption."""
    photo = [{"file_id": "p", "width": 1, "height": 1}]
    captioned = update(chat=GROUP, photo=photo, media_group_id="A", caption="@nanomem_bot look")
    assert updates.album(captioned, ME, "mention") == "A"
    other = update(chat=GROUP, photo=photo, media_group_id="A")
    assert updates.album(other, ME, "mention") is None
    assert heard(other) is None
    assert message(other, albums=["A"]).album == "A"


def test_an_edited_message_says_so() -> None:
    """With the time of the edit; a live location that moves on is no message."""
    found = message(update("edited_message", text="better", edit_date=1_700_000_060))
    assert found.edited and found.sent_at == datetime(2023, 11, 14, 22, 14, 20, tzinfo=UTC)
    assert heard(update("edited_message", location={"latitude": 1, "longitude": 2}, edit_date=1)) is None


def test_a_reply_names_whom_and_what() -> None:
    """The quoted words where some were marked; long texts are cut."""
    said = {"message_id": 1, "from": BOB, "text": "The train leaves at 9."}
    assert message(update(text="really?", reply_to_message=said)).reply_to == "Bob: The train leaves at 9."
    quoted = update(text="really?", reply_to_message=said, quote={"text": "at 9"})
    assert message(quoted).reply_to == "Bob: at 9"
    long = message(update(text="really?", reply_to_message={**said, "text": "x" * 4096})).reply_to
    assert long is not None and len(long) == len("Bob: ") + 500 and long.endswith("…")
    voice = {"message_id": 1, "from": BOB, "voice": VIDEO}
    assert "voice message" in (message(update(text="?", reply_to_message=voice)).reply_to or "")
    elsewhere = {"origin": {"type": "channel", "chat": {"id": 1, "title": "News"}}}
    assert message(update(text="?", external_reply=elsewhere, quote={"text": "Rain"})).reply_to == "News: Rain"


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ({"type": "user", "sender_user": BOB}, "Bob"),
        ({"type": "hidden_user", "sender_user_name": "Somebody Else"}, "Somebody Else"),
        ({"type": "chat", "sender_chat": {"id": -1, "title": "Club"}}, "Club"),
        ({"type": "channel", "chat": {"id": -1, "title": "News"}, "message_id": 1}, "News"),
        ({"type": "unheard of"}, "somebody"),
    ],
)
def test_a_forwarded_message_says_from_whom(origin: dict[str, Any], name: str) -> None:
    """It still is the message of who forwarded it."""
    found = message(update(text="look", forward_origin=origin))
    assert (found.forwarded_from, found.sender.name) == (name, "Ann Lee")


def test_a_photo_in_its_largest_size() -> None:
    """The caption is the text."""
    sizes = [{"file_id": "s", "width": 9, "height": 9}, {"file_id": "l", "width": 90, "height": 90, "file_size": 5}]
    found = message(update(photo=sizes, caption="my cat"))
    assert found.text == "my cat"
    assert found.attachments == (Attachment("image", "photo.jpg", "image/jpeg", 5, "l"),)
    assert message(update(photo=sizes)).text == ""


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("notes.txt", "notes.txt"),
        ("../../x", "x"),
        ("..\\..\\x.md", "x.md"),
        ("..", "document"),
        ("", "document"),
        (None, "document"),
        ("a\x00b\n.txt", "a\ufffdb.txt"),
        ("x" * 10_000 + ".pdf", "x" * 196 + ".pdf"),
    ],
)
def test_a_document_has_a_harmless_name(given: str | None, name: str) -> None:
    """Whatever the sender called it."""
    document = {"file_id": "d", "file_name": given, "mime_type": "text/plain", "file_size": 3}
    assert message(update(document=document)).attachments == (Attachment("document", name, "text/plain", 3, "d"),)


def test_a_picture_sent_as_a_document_is_a_picture() -> None:
    """Of the kinds that models can see."""
    kinds = {"image/png": "image", "image/svg+xml": "document", "": "document"}
    for media_type, kind in kinds.items():
        found = message(update(document={"file_id": "d", "file_name": "a", "mime_type": media_type}))
        assert found.attachments[0].kind == kind


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"voice": VIDEO}, "[A voice message that nanomem cannot read yet]"),
        ({"video": VIDEO, "caption": "us"}, "us\n[A video that nanomem cannot read yet]"),
        ({"animation": VIDEO, "document": {"file_id": "f"}}, "[An animation that nanomem cannot read yet]"),
        ({"sticker": {"file_id": "f", "emoji": "🙂"}}, "[A sticker that nanomem cannot read yet]"),
        ({"location": {"latitude": 48.5, "longitude": 2}}, "[Something that nanomem cannot read yet]"),
        ({"poll": {"question": "Tea?"}}, "[Something that nanomem cannot read yet]"),
        ({"text": "", "entities": []}, "[Something that nanomem cannot read yet]"),
    ],
)
def test_what_it_cannot_take_gets_a_word(content: dict[str, Any], words: str) -> None:
    """Never silence."""
    assert message(update(**content)).text == words


@pytest.mark.parametrize(
    "service",
    [
        {"new_chat_members": [BOB]},
        {"left_chat_member": BOB},
        {"pinned_message": {"message_id": 1}},
        {"migrate_to_chat_id": -100},
        {"forum_topic_created": {"name": "x"}},
        {"video_chat_started": {}},
        {"message_auto_delete_timer_changed": {"message_auto_delete_time": 1}},
    ],
)
def test_what_only_happened_is_no_message(service: dict[str, Any]) -> None:
    """Joins, pins and the like."""
    assert heard(update(**service)) is None


def test_who_is_behind_an_update() -> None:
    """A forwarded message is the forwarder's; bots, channels and anonymous admins are nobody to talk with."""
    assert updates.speaker(update(text="x", forward_origin={"type": "user", "sender_user": BOB})) == updates.Speaker(
        42, True
    )
    assert not updates.speaker(update(text="x", sent_by={**ANN, "is_bot": True})).person
    assert not updates.speaker(update(text="x", sender_chat=GROUP)).person
    assert updates.speaker(update(text="x", sent_by=None)) == updates.Speaker(None, False)
    assert updates.speaker(update(text="x", sent_by={"username": "ann"})) == updates.Speaker(None, False)
    assert updates.speaker({"update_id": 1, "callback_query": {"from": BOB, "data": "x"}}) == updates.Speaker(43, True)


def test_a_pairing_code_is_read_in_private_only() -> None:
    """And only from a message as it was sent first."""
    assert updates.pairing_code(update(text="/start abc-123")) == "abc-123"
    assert updates.pairing_code(update(text="/start@nanomem_bot abc")) == "abc"
    for other in (update(text="/start"), update(text="/start a b"), update(chat=GROUP, text="/start abc")):
        assert updates.pairing_code(other) is None
    assert updates.pairing_code(update("edited_message", text="/start abc")) is None


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        "text",
        {},
        {"update_id": 1},
        {"update_id": 1, "message": None},
        {"update_id": 1, "message": "hello"},
        {"update_id": 1, "brand_new": {"from": ANN}},
        update(text="x", chat=None),
        update(text="x", chat={"type": "private"}),
        update(text="x", chat={"id": "42", "type": "private"}),
        update(text=5),
        update(text="x", date="now"),
        update(text="x", date=10**30),
        update(text="x", sent_by="Ann"),
        update(text="x", sent_by={"id": "42"}),
        update(text="x", sent_by={"id": True}),
        update(photo="x"),
        update(photo=[5]),
        update(photo=[{"width": 1}]),
        update(document=[]),
        update(document={"file_id": 5}),
        update(text="x", reply_to_message=5),
        update(text="x", forward_origin="Bob"),
        update(text="x", media_group_id=5),
    ],
)
def test_what_cannot_be_read_is_broken(broken: Any) -> None:
    """It says so with one kind of error, in words."""
    with pytest.raises(Broken, match=r"\w"):
        updates.speaker(broken)
        heard(broken)


def test_what_cannot_be_stored_is_replaced() -> None:
    """Half a surrogate pair cannot be written to disk."""
    found = message(update(text="a\ud83d\x00", sent_by={**ANN, "first_name": "A\udc00\nSystem:", "last_name": None}))
    assert (found.text, found.sender.name) == ("a\ufffd\ufffd", "A\ufffd System:")


@pytest.mark.parametrize("odd", [None, True, "5", 1.5, -1, 2**70])
def test_an_id_that_cannot_be_confirmed(odd: object) -> None:
    """Is none."""
    assert updates.number({"update_id": odd}) is None
    assert updates.number(odd) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = """
    message_id date edit_date chat from text caption entities caption_entities photo document voice sticker location
    venue contact poll reply_to_message external_reply quote forward_origin media_group_id message_thread_id
    is_topic_message sender_chat migrate_to_chat_id migrate_from_chat_id id type is_bot first_name username user title
    file_id file_name mime_type file_size width duration emoji latitude origin sender_user author_signature
"""
FIELDS = st.sampled_from(NAMES.split())
SOUND = {
    "chat": st.sampled_from([{"id": 42, "type": "private"}, GROUP]),
    "from": st.just(ANN),
    "date": st.just(1_700_000_000),
}
NODES = st.recursive(JSON, lambda inner: st.dictionaries(FIELDS, inner, max_size=6), max_leaves=12)
BODIES = st.builds(
    lambda sound, odd: {**sound, **odd}, st.fixed_dictionaries({}, optional=SOUND), st.dictionaries(FIELDS, NODES)
)


@given(NODES | st.dictionaries(st.sampled_from([*updates.KINDS, "update_id", "poll"]), BODIES | JSON, max_size=2))
def test_no_json_is_a_surprise(raw: object) -> None:
    """Whatever comes is read, passed over, or broken; nothing else is raised."""
    readers: list[tuple[Callable[[object], object], Any]] = [
        (updates.speaker, updates.Speaker),
        (updates.pairing_code, str | None),
        (updates.migration, tuple | None),
        (lambda raw: updates.album(raw, ME, "mention"), str | None),
        (lambda raw: heard(raw, "all"), Inbound | None),
        (lambda raw: heard(raw, "mention", albums=["A"]), Inbound | None),
    ]
    assert isinstance(updates.number(raw), int | None)
    for read, kind in readers:
        try:
            found = read(raw)
        except Broken as broken:
            assert str(broken)
        else:
            assert isinstance(found, kind)
