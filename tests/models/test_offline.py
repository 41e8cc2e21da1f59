"""The offline model quotes what it was told, in any language, and never claims more than it knows."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.messages import PromptMessage, Reply, Request, ToolCall, ToolSchema
from nanomem.models.offline import HELLO, HOW, NOTED, NOTHING, WHO, OfflineModel, answer

SYSTEM = """You are nanomem.

## Manner

Be kind to your sister.

## About the person

- Name: Ann

## Long-term memory

# Long-term memory

## Pets
- The dog is called Rex
- (nothing else)
- Car: (to be filled)
- 猫叫小花
- Lives in Graz
"""
SAID = (
    "[3 days ago] My sister Eva was born on 4 May 1990.",
    "[2026-04-10 09:15] Ich wohne in Wien und mein Hund heißt Bello.",
    "[2025-04-10 09:16] 我最喜欢的食物是饺子",
    "[2026-04-10 09:17] What is my favourite colour?",
)
CONTEXT = """

<context>
now: 2026-04-12 10:00 Sunday
channel: terminal
memory changed since this conversation's prompt was built:
MEMORY.md + - The bike is red
MEMORY.md - - Lives in Graz
</context>"""
REMEMBER = ToolSchema("remember", "", {})
RECALL = ToolSchema("recall", "", {})


def asked(text: str, *tools: ToolSchema, after: tuple[PromptMessage, ...] = ()) -> Reply:
    """What is answered to a message that comes after a conversation."""
    history = [m for text in SAID for m in (PromptMessage("user", text), PromptMessage("assistant", "Eva? Rex?"))]
    newest = PromptMessage("user", f"[2026-04-12 10:00] {text}{CONTEXT}")
    return answer(Request(SYSTEM, (*history, newest, *after), tools))


@pytest.mark.parametrize(
    ("question", "quote"),
    [
        ("When was my sister born?", 'You said 3 days ago: "My sister Eva was born on 4 May 1990."'),
        ("tell me about my sisters", 'You said 3 days ago: "My sister Eva was born on 4 May 1990."'),
        ("What is my dog called?", 'In your memory: "The dog is called Rex"'),
        ("What colour is the bike?", 'In your memory: "The bike is red"'),
        ("Wie heißt mein Hund?", 'You said on 10 April: "Ich wohne in Wien und mein Hund heißt Bello."'),
        ("Wo WOHNE ich", 'You said on 10 April: "Ich wohne in Wien und mein Hund heißt Bello."'),
        ("我喜欢什么食物?", 'You said on 10 April 2025: "我最喜欢的食物是饺子"'),
        ("我的猫叫什么", 'In your memory: "猫叫小花"'),
        ("我的猫叫小花\uff1f", 'In your memory: "猫叫小花"'),
    ],
)
def test_answers_by_quoting(question: str, quote: str) -> None:
    """The best line of memory or conversation, with its date."""
    assert quote in asked(question).text


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("hi", HELLO),
        ("Hello there!", HELLO),
        ("Guten Morgen", HELLO),
        ("你好!", HELLO),
        ("你好\uff01", HELLO),
        ("What are you?", WHO),
        ("which model is this", WHO),
        ("Wer bist du?", WHO),
        ("你是谁?", WHO),
        ("What is my favourite colour?", NOTHING),
        ("Do I live in Graz?", NOTHING),
        ("Which model of car did I buy?", NOTHING),
        ("Which car do I drive?", NOTHING),
        ("?", NOTHING),
        ("I went swimming.", NOTED),
        ("Heute war ich schwimmen", NOTED),
        ("Write a poem", NOTED),
        ("bitte schreib ein Gedicht", NOTED),
        ("run ls -l", NOTED),
        ("Remember that I like tea", NOTED),
        ("Merk dir, dass ich Tee mag", NOTED),
        ("记住我喜欢茶", NOTED),
    ],
)
def test_says_what_it_is_and_what_it_cannot(text: str, reply: str) -> None:
    """No pretending: a question that was asked before is not an answer, what was taken out of memory is not known."""
    assert asked(text).text == reply


def test_says_how_to_set_a_real_model() -> None:
    """With who it is, and where it knows nothing."""
    assert HOW in WHO and HOW in NOTHING and "nanomem init" in HOW and "agents.defaults.model" in HOW


@pytest.mark.parametrize(
    ("text", "is_about_it"),
    [
        ("How do I set a real model?", True),
        ("can I switch to another LLM", True),
        ("where do I put my API key?", True),
        ("How can I use ChatGPT with you?", True),
        ("Wie kann ich ein echtes Modell nehmen?", True),
        ("怎么设置真正的模型？", True),
        ("Which model railway did I set up?", False),
        ("Where is the model of a ship that I own?", False),
        ("I will work at OpenAI with another model of car", False),
    ],
)
def test_a_question_how_to_set_one_is_no_question_about_you(text: str, is_about_it: bool) -> None:
    """What was said is not searched for a sentence with `set` in it."""
    said = (PromptMessage("user", "I own a model of a real ship, set on a shelf"), PromptMessage("assistant", "Noted."))
    reply = answer(Request(SYSTEM, (*said, PromptMessage("user", text))))
    assert (reply.text == HOW) is is_about_it


@pytest.mark.parametrize(
    "text", ["remember that I like tea", "Please remember: I like tea", "记住:I like tea", "请记住\uff1aI like tea"]
)
def test_remembers_by_the_tool(text: str) -> None:
    """The tool does it, and its receipt is what the person reads."""
    reply = asked(text, RECALL, REMEMBER)
    assert [(c.name, json.loads(c.arguments)) for c in reply.tool_calls] == [("remember", {"fact": "I like tea"})]
    after = (
        PromptMessage("assistant", "", reply.tool_calls),
        PromptMessage("tool", "Saved (version 3): I like tea", tool_call_id=reply.tool_calls[0].id, name="remember"),
    )
    assert asked(text, RECALL, REMEMBER, after=after).text == "Saved (version 3): I like tea"


@pytest.mark.parametrize(
    ("found", "answered"),
    [
        (
            "Found:\n[10 April 2026, 09:15] Ann: Bob's phone number is 123\n[9 April 2026, 09:15] Ann: hello\n"
            "[8 April 2026, 09:15] Ann: What is Bob's phone number?",
            'You said on 10 April: "Bob\'s phone number is 123"',
        ),
        (
            "Found:\n[9 April 2026, 10:00] Summary: Bob's phone number (telegram:42, messages 1-9, history 3)\n"
            "[8 April 2026, 09:15] Ann: Bob's phone (at work) has number 123 (telegram:42, message 4)",
            'You said on 8 April: "Bob\'s phone (at work) has number 123"',
        ),
        ("Nothing was found.", NOTHING),
    ],
)
def test_looks_further_back_once(found: str, answered: str) -> None:
    """What the prompt does not know is searched for with the question itself, and quoted."""
    question = "What's Bob's phone number?"
    reply = asked(question, RECALL)
    assert [(c.name, json.loads(c.arguments)) for c in reply.tool_calls] == [("recall", {"query": question})]
    after = (PromptMessage("assistant", "", reply.tool_calls), PromptMessage("tool", found, (), "c", "recall"))
    assert asked(question, RECALL, after=after).text == answered


def test_several_messages_at_once() -> None:
    """Questions are answered, greetings and statements beside them do not get in the way."""
    text = "hello\n\n[2026-04-12 10:00] I bought a hat\n\n[2026-04-12 10:01] When was my sister born?"
    assert asked(text).text.startswith("You said 3 days ago")


def test_a_statement_of_just_now_is_known_to_the_question_after_it() -> None:
    """Also where both came in together."""
    reply = asked("My hat is green\n\n[2026-04-12 10:01] What colour is my hat?")
    assert reply.text == 'You said on 12 April: "My hat is green"'


def in_group(text: str, *tools: ToolSchema) -> Reply:
    """What is answered to Ann in a group, where each message begins with its sender's name."""
    messages = (
        PromptMessage("user", "[2026-04-10 09:15] Bob: My hat is green\n\n[2026-04-10 09:16] Ann: My shoe is red"),
        PromptMessage("assistant", "Noted"),
        PromptMessage("user", f"[2026-04-12 09:15] Ann: {text}\n\n<context>\nnow: 2026-04-12\nsender: Ann\n</context>"),
    )
    return answer(Request("", messages, tools))


def test_in_a_group_it_says_who() -> None:
    """Somebody else's words are not put into the asker's mouth."""
    assert in_group("What colour is the hat?").text == 'Bob said on 10 April: "My hat is green"'
    assert in_group("What colour is the shoe?").text == 'You said on 10 April: "My shoe is red"'


def test_in_a_group_the_name_is_no_part_of_the_words() -> None:
    """A greeting is one, and so is a wish to remember."""
    assert in_group("hello").text == HELLO
    assert json.loads(in_group("remember I like tea", REMEMBER).tool_calls[0].arguments) == {"fact": "I like tea"}


def forced(name: str, prompt: str = "", properties: tuple[str, ...] = ()) -> dict[str, object]:
    """The arguments of a forced call."""
    tool = ToolSchema(name, "", {"type": "object", "properties": {key: {} for key in properties}})
    (call,) = answer(Request("You learn.", (PromptMessage("user", prompt),), (tool,), name)).tool_calls
    assert call.name == name
    arguments = json.loads(call.arguments)
    assert isinstance(arguments, dict)
    return arguments


PROMPT = """## Current Long-term Memory
# Facts

- The dog is called Rex

## Conversation to Process
[2026-04-10 09:15] USER: I moved to Graz. It was hard.
[2026-04-10 09:16] ASSISTANT: Noted.
[2026-04-10 09:17] USER: 我喜欢饺子。很好吃。
[2026-04-10 09:18] USER (Ann): i have a cat
[2026-04-10 09:19] USER (Ann): What is it called?
"""


def test_a_forced_summary_is_an_extract() -> None:
    """The first sentences of what was said; the memory comes back as it was."""
    assert forced("save_memory", PROMPT, ("history_entry", "memory_update")) == {
        "history_entry": "I moved to Graz. 我喜欢饺子。 i have a cat. What is it called?",
        "memory_update": "# Facts\n\n- The dog is called Rex",
    }
    assert forced("save_memory", PROMPT, ("history_entry", "changes"))["changes"] == []
    assert forced("save_memory", "")["history_entry"]


KNOWN = """## Current SOUL.md
# Manner

- Be kind

## Current USER.md
# Person

- Name: (to be filled)
- "I am a baker." (said on 1 March 2026)

## Current Long-term Memory
(empty)

## New Since the Last Time
"""
NOTHING_LEARNT: dict[str, object] = {
    "user_updates": [], "memory_updates": [], "soul_updates": [], "outdated": [], "processed_entries": [],
}  # fmt: skip


def learnt(entries: str) -> tuple[list[str], list[str]]:
    """What is proposed for USER.md and for MEMORY.md; nothing else is."""
    found = forced("extract_facts", KNOWN + entries)
    user, memory = found["user_updates"], found["memory_updates"]
    assert {**found, "user_updates": [], "memory_updates": []} == NOTHING_LEARNT
    assert isinstance(user, list) and isinstance(memory, list)
    return user, memory


def test_it_learns_what_people_say_of_themselves() -> None:
    """Word for word, with the day; from talk and from summaries, never from what the assistant or a tool said."""
    entries = """[2026-04-08 20:00] I live in Leipzig. What is my name? My sister Eva is a nurse.
- I like tea
- likes walks

[2026-04-09 07:30] [RAW] 3 messages
[2026-04-09 07:29] USER: Hello, I am Ann. Nice weather today.
[2026-04-09 07:29] ASSISTANT [tools: recall]: I am nanomem. I live in your computer.
[2026-04-09 07:30] TOOL (read_file): I have a cat

[2026-04-10 09:15] USER (Ann): We have two cats: Tom and Kit
[2026-04-10 09:16] USER (Ann, forwarded from Bob): I hate cats."""
    assert learnt(entries) == (
        [
            '"I live in Leipzig." (said on 8 April 2026)',
            '"I like tea" (said on 8 April 2026)',
            '"Hello, I am Ann." (said on 9 April 2026)',
        ],
        [
            '"My sister Eva is a nurse." (said on 8 April 2026)',
            '"We have two cats: Tom and Kit" (said on 10 April 2026)',
        ],
    )


@pytest.mark.parametrize(
    ("sentence", "of"),
    [
        ("I'm a gardener.", "user"),
        ("I’m 42", "user"),
        ("i work at the library!", "user"),
        ("I don't like olives.", "user"),
        ("By the way, my name is Ann.", "user"),
        ("My favourite colour is green.", "user"),
        ("Ich heiße Ann.", "user"),
        ("ich wohne in Wien", "user"),
        ("我叫小明。", "user"),
        ("我住在北京\uff01", "user"),
        ("我很喜欢饺子", "user"),
        ("I have two sons.", "memory"),
        ("I need a new knee.", "memory"),
        ("I need to take insulin every day.", "memory"),
        ("My mother's birthday is on 4 May.", "memory"),
        ("Our dog is called Rex.", "memory"),
        ("We live next to Bob", "memory"),
        ("Meine Schwester Eva heißt jetzt Braun.", "memory"),
        ("Ich habe zwei Katzen.", "memory"),
        ("我妈妈是老师。", "memory"),
        ("我的猫叫小花", "memory"),
        ("Do I live in Graz?", ""),
        ("I am Ann, am I not?", ""),
        ("我是谁", ""),
        ("我叫小明吗", ""),
        ("我的狗叫大黄\uff1f", ""),
        ("hello", ""),
        ("Write a poem about my cat.", ""),
        ("Remember that I like tea.", ""),
        ("run ls -l", ""),
        ("He said I am late.", ""),
        ("I have a question.", ""),
        ("I need your help.", ""),
        ("I am back!", ""),
        ("I like it.", ""),
        ("Ich habe eine Frage", ""),
        ("我有一个问题", ""),
        ("It is raining.", ""),
        ("I am a baker!", ""),  # USER.md quotes it
        ("I am <!-- not --> a baker", ""),
        (f"I like {'very ' * 60}strong tea.", ""),
    ],
)
@pytest.mark.parametrize("form", ["[2026-04-10 09:15] USER: {}", "[2026-04-10 09:15] {}"])
def test_what_it_learns_and_what_not(form: str, sentence: str, of: str) -> None:
    """Statements about a person, by their first words: no questions, greetings, orders, nothing that passes."""
    user, memory = learnt(form.format(sentence))
    fact = [f'"{sentence}" (said on 10 April 2026)']
    assert (user, memory) == (fact if of == "user" else [], fact if of == "memory" else [])


def test_it_learns_each_thing_once_and_not_too_much() -> None:
    """Forty at most, the first ones; in a group it says whose words they are."""
    many = "\n".join(f"[2026-04-10 09:15] USER: I like dish {n:02}." for n in range(60))
    user, memory = learnt(f"{many}\n{many}")
    assert len(user) == len(set(user)) == 40 and memory == []
    assert user[-1] == '"I like dish 39." (said on 10 April 2026)'
    group = "[2026-04-10 09:15] USER (Ann): I like tea.\n[2026-04-10 09:15] USER (Bob): I have a dog."
    assert learnt(group) == (
        ['"I like tea." (said by Ann on 10 April 2026)'],
        ['"I have a dog." (said by Bob on 10 April 2026)'],
    )
    assert learnt(group.splitlines()[0]) == (['"I like tea." (said on 10 April 2026)'], [])
    assert forced("extract_facts") == NOTHING_LEARNT


def updated(text: str, *items: str, more: str = "") -> str:
    """What MEMORY.md shall be."""
    path = {"type": "string", "enum": ["memory/MEMORY.md"]}
    tool = ToolSchema("update_file", "", {"type": "object", "properties": {"path": path, "content": {}}})
    listed = "\n".join(f"- {item}" for item in items) or "(nothing new)"
    prompt = f"## Current Long-term Memory\n{text or '(empty)'}\n\n## To Take In\n{listed}\n{more}"
    (call,) = answer(Request("You learn.", (PromptMessage("user", prompt),), (tool,), "update_file")).tool_calls
    arguments = json.loads(call.arguments)
    assert (arguments["path"], arguments["removed"]) == ("memory/MEMORY.md", [])
    return str(arguments["content"])


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("", "- a\n- b"),
        ("# Memory\n\n(to be filled)\n", "# Memory\n\n(to be filled)\n\n- a\n- b"),
        ("# Memory\n\n## Pets\n- The dog is called Rex\n", "# Memory\n\n## Pets\n- The dog is called Rex\n- a\n- b"),
        ("- b\n\nSome prose.", "- b\n\nSome prose.\n\n- a"),
        ("* a\n* b\n", "* a\n* b"),
        ("## Current plans\n- c\n\n## To Take In\n- d\n", "## Current plans\n- c\n\n## To Take In\n- d\n- a\n- b"),
    ],
)
def test_a_file_keeps_its_text_and_gets_what_is_new(text: str, content: str) -> None:
    """As items of a list at its end; what it says already is not said twice, what is outdated is not its to judge."""
    assert updated(text, "a", "b", "a") == content
    assert updated(text, "a", "b", more="\n## Outdated\n- The dog is called Rex (it died)\n") == content
    assert updated(text) == text.strip("\n")
    assert updated(content, "a", "b") == content


async def test_answers_in_growing_pieces() -> None:
    """As a real model does, and for nothing."""
    heard: list[str] = []
    model = OfflineModel()
    reply = await model.ask(Request("", (PromptMessage("user", "who are you?"),)), heard.append)
    assert model.name == "offline" and heard[-1] == reply.text and len(heard) > 2
    assert all(later.startswith(earlier) and later != earlier for earlier, later in pairwise(heard))
    assert reply.usage.prompt_tokens == 0


texts = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from([*SAID, CONTEXT, "remember", "that", "what", "?", "什么", "\n\n", ": ", "[", "## ", "\ud83d"])
    ).map(" ".join),
)


@given(texts, texts, texts, st.sampled_from([None, "", "save_memory", "extract_facts", "update_file"]), st.booleans())
def test_no_text_is_too_strange(system: str, said: str, result: str, forced: str | None, tools: bool) -> None:
    """It never raises, always answers, and the same question gets the same answer."""
    call = ToolCall("c", "recall", "{}")
    messages = (PromptMessage("user", said), PromptMessage("assistant", "", (call,)), PromptMessage("tool", result))
    for count in range(4):
        request = Request(system, messages[:count], (REMEMBER, RECALL) if tools else (), forced)
        reply = answer(request)
        assert reply == answer(request)
        assert reply.text or reply.tool_calls
        assert not (count == 3 and forced is None and reply.tool_calls)


@pytest.mark.parametrize(
    "sign", ["a ", " ", "?", "set ", "? ", "I am x. ", "[1 day ago] x\n\n", "<context>\n", "什", "\n", "- x\n"]
)
def test_no_text_can_hang_it(sign: str) -> None:
    """A megabyte of anything is answered."""
    text = sign * (1_000_000 // len(sign))
    assert answer(Request(f"## About the person\n{text}", (PromptMessage("user", f"{text}x"),)))
    assert answer(Request("", (PromptMessage("user", f"what is x\n\n{text}"), PromptMessage("tool", text))))
    assert forced("extract_facts", f"{KNOWN}[2026-04-10 09:15] USER: I am {text}{text}")
    assert forced("update_file", f"## Current USER.md\n{text}\n## To Take In\n{text}")
    assert forced("save_memory", f"{PROMPT}{text}")
