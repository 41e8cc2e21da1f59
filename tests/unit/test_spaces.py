"""Who shares a memory, and where it is: decided from the address alone."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.spaces import OWNER, Spaces, file_name

HOME = Path("/home/of/nanomem")
any_key = st.text(st.characters(), max_size=300) | st.text("aA%~./", max_size=6)
part = st.text(st.characters(exclude_characters=":"), max_size=20)
chats = st.builds("{}:{}".format, st.sampled_from(["telegram", "matrix", "terminals"]), part)
owners = st.frozensets(chats, max_size=3)


@given(any_key)
def test_any_key_is_a_file_name(key: str) -> None:
    """Of plain characters, at most 200 bytes, no way out of its folder, and no hidden name of one or two dots."""
    name = file_name(key)
    assert 0 < len(name.encode("ascii")) <= 200
    assert "/" not in name and "\0" not in name and name not in {".", ".."}
    assert (HOME / name).parent == HOME


@given(any_key, any_key)
def test_different_keys_have_different_files(one: str, other: str) -> None:
    """Also where the file system does not tell upper case from lower."""
    assert (file_name(one).lower() == file_name(other).lower()) == (one == other)


@given(any_key, st.data())
def test_keys_that_differ_only_in_case_have_different_files(key: str, data: st.DataObject) -> None:
    """On any file system."""
    other = data.draw(st.sampled_from([key.upper(), key.lower(), key.swapcase(), key.title()]))
    assert (file_name(key).lower() == file_name(other).lower()) == (key == other)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("telegram:42", "telegram%3A42"),
        ("telegram:-1001", "telegram%3A-1001"),
        ("telegram:-1001:7", "telegram%3A-1001%3A7"),
        ("terminal:local", "terminal%3Alocal"),
    ],
)
def test_names_of_common_keys_are_plain(key: str, name: str) -> None:
    """A person can tell whose file it is."""
    assert file_name(key) == name


@given(chats, part, owners)
def test_an_address_falls_into_one_space_with_all_its_topics(chat: str, topic: str, owned: frozenset[str]) -> None:
    """The owner's if it is an owner's chat, else its own."""
    spaces = Spaces(HOME, owned)
    space = spaces.of(chat)
    assert spaces.of(chat) == spaces.of(f"{chat}:{topic}") == spaces.named(space.name)
    assert space.is_owners == (chat in owned)
    assert space.name == (OWNER if chat in owned else chat)
    assert space.shared_root == HOME / "workspace"
    expected = HOME / "workspace" if space.is_owners else HOME / "spaces"
    assert space.root == expected or space.root.parent == expected


@given(chats, chats, owners)
def test_two_chats_share_a_space_only_if_both_are_the_owners(one: str, other: str, owned: frozenset[str]) -> None:
    """No one else's memory is in anybody's reach."""
    spaces = Spaces(HOME, owned)
    shared = spaces.of(one).root == spaces.of(other).root
    assert shared == (one == other or {one, other} <= owned)


def test_the_terminal_is_the_owners() -> None:
    """Whoever sits there owns the daemon; a channel whose name only begins so is not it."""
    spaces = Spaces(HOME)
    assert spaces.of("terminal:local").is_owners and spaces.of("terminal:work:3").is_owners
    assert not spaces.of("terminals:local").is_owners


@given(chats, owners)
def test_one_space_for_all_where_the_settings_say_so(chat: str, owned: frozenset[str]) -> None:
    """`spaces = "shared"`."""
    assert Spaces(HOME, owned, "shared").of(chat).root == HOME / "workspace"
