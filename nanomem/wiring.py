"""Which concrete class stands behind each port: the one place that names them, and what the settings give each."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import TYPE_CHECKING

import structlog

from nanomem.access import TelegramDoor
from nanomem.agent.asking import Asker, DailyLimits, Purse
from nanomem.agent.background import Background
from nanomem.agent.commands import Commands
from nanomem.agent.conversation import Conversations
from nanomem.agent.prompting import Known, Prompter, PromptLimits
from nanomem.agent.skill_commands import commands as skill_commands
from nanomem.agent.toolbox import Toolbox
from nanomem.agent.traffic import Traffic
from nanomem.agent.turn import Runner
from nanomem.budget import Calibration
from nanomem.cron import next_after
from nanomem.home import Home
from nanomem.imports import without
from nanomem.memory import asked
from nanomem.memory import commands as memory_commands
from nanomem.memory.calling import Caller, CallLimits
from nanomem.memory.clearing import Clearing
from nanomem.memory.consolidate import Consolidator, When
from nanomem.memory.decisions import Decisions
from nanomem.memory.distill import Distiller
from nanomem.memory.dream import Dreamer
from nanomem.memory.dream_commands import DreamCommands
from nanomem.memory.dreams import Dreams
from nanomem.memory.embedding import Embedding
from nanomem.memory.learning import Learner
from nanomem.memory.pushing import Pusher
from nanomem.memory.recalling import Recalling
from nanomem.memory.reminding import IndexReminder
from nanomem.memory.rights import Rights
from nanomem.memory.unread import Unread
from nanomem.memory.why import Why
from nanomem.memory.writer import MemoryWriter
from nanomem.models.frames import Reach
from nanomem.models.litellm_process import ApartEmbedder, ApartModel, LitellmProcess
from nanomem.models.local_embedding import LOCAL, LocalEmbedder, folder_of, trouble
from nanomem.models.tokens import O200kTokenizer
from nanomem.ports import Clock, Diary, Embedder, Meter, Model, Purpose, Skills
from nanomem.settings import Settings, zone
from nanomem.spaces import Space
from nanomem.stores.history import JsonlHistory
from nanomem.stores.memory_files import PlainWorkingFiles
from nanomem.stores.recall_index import SqliteRecallIndex
from nanomem.stores.remote import Remote
from nanomem.stores.session_log import JsonlSessionLog
from nanomem.stores.skills import SkillFolders
from nanomem.stores.templates import JinjaTemplates
from nanomem.stores.versions import GitVersions
from nanomem.tools.stillness import Stillness
from nanomem.tools.workbench import Workbench, load_tools

if TYPE_CHECKING:
    from nanomem.channels.telegram import TelegramChannel

log = structlog.get_logger()

LARGEST_RAW_ENTRY = 16_000
"""Tokens of a history entry that keeps messages word by word."""


class SystemClock:
    """`ports.Clock` on the machine's clocks."""

    def now(self) -> datetime:
        """See the port."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """See the port."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """See the port."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Ground:
    """What everything else stands on. `still` keeps commands out of a space; `pusher` sends versions to the remote;
    `recalling` finds what was said, in the `index`; `litellm` is the process of that name, which may not be begun."""

    home: Home
    settings: Settings
    environ: Mapping[str, str]
    clock: Clock
    logs: JsonlSessionLog
    still: Stillness
    memory: asked.Parts
    pusher: Pusher
    index: SqliteRecallIndex
    recalling: Recalling
    litellm: LitellmProcess

    async def close(self) -> None:
        """Ends what it holds open."""
        await self.index.close()
        await self.litellm.close()


def ground(home: Home, settings: Settings, environ: Mapping[str, str], meter: Meter | None = None) -> Ground:
    """For a home whose lock is held. Without a `meter` nobody is paid: only a local model makes vectors."""
    clock, still, versions, litellm = SystemClock(), Stillness(), GitVersions(home.versions), LitellmProcess()
    timezone = zone(settings.agents.defaults.timezone, environ)
    embedder = _embedder(home, settings, environ, litellm)
    vectors_of = embedder.name if embedder else None if settings.memory.embeddings else ""
    index = SqliteRecallIndex(home.state / "recall", timezone, vectors_of)
    embedding = _embedding(index, embedder, settings, clock, timezone, meter) if embedder else None
    files = PlainWorkingFiles()
    recalling = Recalling(index, files.read, clock, timezone, embedding)
    pusher = Pusher(Remote(settings.memory.remote, versions, environ).push, clock)
    logs, history = JsonlSessionLog(recalling.appended), JsonlHistory(timezone, recalling.appended)

    def changed(space: Space) -> None:
        """There may be a new version."""
        pusher.changed(space)
        recalling.changed(space)

    writer = MemoryWriter(versions, files, clock, changed, still)
    why = Why(writer, versions, history, logs.messages)
    memory = asked.Parts(writer, versions, history, why, recalling.answer, timezone)
    return Ground(home, settings, environ, clock, logs, still, memory, pusher, index, recalling, litellm)


@dataclass(frozen=True, slots=True)
class Core:
    """What answers, whoever asks."""

    asker: Asker
    conversations: Conversations
    commands: Commands
    runner: Runner
    memory: asked.Parts
    consolidator: Consolidator
    background: Background
    dreams: Dreams
    traffic: Traffic


def core(ground: Ground, space_of: Callable[[str], Space], meter: Meter, diary: Diary) -> Core:
    """The parts that answer; `space_of` is the space of an address."""
    settings, clock, memory, timezone = ground.settings, ground.clock, ground.memory, ground.memory.zone
    defaults, tokenizer = settings.agents.defaults, O200kTokenizer()
    templates = JinjaTemplates(ground.home.workspace / "prompts")
    skills = SkillFolders()
    toolbox = _toolbox(ground, skills)
    limits = PromptLimits(
        budget=defaults.budget,
        max_tokens=defaults.max_completion_tokens,
        temperature=defaults.temperature,
        target_ratio=settings.agents.consolidation.target_ratio,
        max_messages=defaults.max_messages,
        cache_ttl_s=defaults.cache_ttl_s,
        timestamps=defaults.timestamps,
        zone=timezone,
    )
    reminder = IndexReminder(partial(ground.recalling.search, at_once=True), tokenizer, clock, timezone)
    known = Known(memory.memory, memory.history, skills, reminder if settings.memory.recall_unasked else None)
    prompter = Prompter(limits, known, templates, tokenizer, clock, toolbox.schemas)
    daily = DailyLimits(defaults.daily_token_limit, defaults.daily_cost_limit_usd)
    asker = Asker(_model(ground, defaults.model), meter, clock, timezone, daily)
    conversations = Conversations(space_of, ground.logs, tokenizer, clock)
    background, traffic = Background(), Traffic(clock)

    frame = _Frame(ground, meter, templates, tokenizer, skills, asker.model, conversations, background)
    dreams = _dreams(frame, diary, traffic)
    consolidator = _consolidator(frame, prompter, dreams)

    runner = Runner(asker, prompter, toolbox, clock, defaults.max_tool_iterations, consolidator.relieve)
    dreaming = DreamCommands(dreams, memory, Rights(space_of))
    more = (
        *Clearing(conversations, consolidator).commands,
        *memory_commands.commands(memory, space_of),
        *dreaming.commands,
        *skill_commands(skills, space_of),
    )
    commands = Commands(conversations, prompter, asker, memory.memory, more, dreaming.status)
    return Core(asker, conversations, commands, runner, memory, consolidator, background, dreams, traffic)


@dataclass(frozen=True, slots=True)
class _Frame:
    """What all work beside the conversations shares; `model` is the conversations' own."""

    ground: Ground
    meter: Meter
    templates: JinjaTemplates
    tokenizer: O200kTokenizer
    skills: Skills
    model: Model
    conversations: Conversations
    background: Background

    def caller(self, model: str, tokens: int, purpose: Purpose) -> Caller:
        """Who asks that model, or the conversations' own for none, within `tokens` a day."""
        defaults, zone = self.ground.settings.agents.defaults, self.ground.memory.zone
        other = self.model if model in ("", defaults.model) else _model(self.ground, model)
        daily = DailyLimits(tokens, defaults.daily_cost_limit_usd, purpose)
        asker = Asker(other, self.meter, self.ground.clock, zone, daily, advice="")
        limits = CallLimits(defaults.budget, defaults.max_completion_tokens, defaults.temperature, zone)
        # Its own factors: its requests are counted as they are, those of a turn as a sum of parts.
        return Caller(limits, asker, Calibration(), self.tokenizer)


def _consolidator(frame: _Frame, prompter: Prompter, dreams: Dreams) -> Consolidator:
    settings, memory, clock = frame.ground.settings, frame.ground.memory, frame.ground.clock
    defaults = settings.agents.defaults
    caller = frame.caller(settings.agents.consolidation.model, defaults.daily_token_limit, "talk")
    distiller = Distiller(caller, frame.templates, frame.tokenizer, clock)
    raw_limit = min(LARGEST_RAW_ENTRY, defaults.budget // 2)
    decisions = Decisions(distiller, memory.memory, memory.versions, memory.history, clock, raw_limit, secrets_in)
    return Consolidator(_when(settings), frame.model.name, prompter, decisions, frame.background, dreams.written)


def _dreams(frame: _Frame, diary: Diary, traffic: Traffic) -> Dreams:
    ground, memory = frame.ground, frame.ground.memory
    given, clock = ground.settings.agents.dream, ground.clock
    caller = frame.caller(given.model, 0, "dream")  # a run that has begun is ended: it minds its allowance itself
    learner = Learner(caller, frame.templates, frame.tokenizer, clock, given.daily_token_limit, traffic.calm)
    quiet = timedelta(seconds=given.quiet_s)
    unread = Unread(memory.history, ground.logs, frame.conversations, frame.tokenizer, clock, quiet, memory.zone)
    dreamer = Dreamer(memory.memory, memory.versions, unread, learner, diary, frame.skills, secrets_in)
    due, spaces = next_due(ground.settings, memory.zone), ground.home.known_spaces
    threshold = given.threshold_entries if given.enabled else 0
    return Dreams(dreamer, diary, clock, frame.background, spaces, due, threshold)


def secrets_in(text: str) -> frozenset[str]:
    """As in `secrecy`, which takes its time to be imported."""
    from nanomem import secrecy

    return secrecy.secrets_in(text)


def next_due(settings: Settings, zone: tzinfo) -> Callable[[datetime], datetime | None]:
    """When the next Dream is due after a moment."""
    given = settings.agents.dream
    return partial(next_after, given.schedule, zone) if given.enabled else lambda moment: None


def _toolbox(ground: Ground, skills: Skills) -> Toolbox:
    tools = ground.settings.tools
    workbench = Workbench(
        ground.memory.zone,
        web_fetch=tools.web_fetch,
        exec_enabled=tools.exec.enabled,
        exec_sandbox=tools.exec.sandbox,
        exec_timeout_s=tools.exec.timeout_s,
        memory=ground.memory.memory,
        skills=skills,
        search=ground.recalling.search,
        still=ground.still,
    )
    return Toolbox(load_tools(workbench))


def _when(settings: Settings) -> When:
    given = settings.agents.consolidation
    return When(
        target_ratio=given.target_ratio,
        soft_ratio=given.soft_ratio,
        max_rounds=given.max_rounds,
        max_failures=given.max_failures_before_raw_archive,
        deadline_s=given.deadline_s,
        memory_window=settings.agents.defaults.memory_window,
    )


def _model(ground: Ground, name: str) -> Model:
    if name == "offline":
        from nanomem.models.offline import OfflineModel

        return OfflineModel()
    timeout_s = ground.settings.agents.defaults.request_timeout_s
    return ApartModel(name, reached(ground.settings, ground.environ), ground.litellm, timeout_s=timeout_s)


def reached(settings: Settings, environ: Mapping[str, str]) -> dict[str, Reach]:
    """How each provider of the settings is reached."""
    return {
        known: Reach(given.api_key.written, given.api_base, given.extra(environ))
        for known, given in settings.providers.items()
    }


def _embedder(home: Home, settings: Settings, environ: Mapping[str, str], litellm: LitellmProcess) -> Embedder | None:
    """The model of the settings; None where there is none, or what it needs is missing, which the log is told."""
    wanted = settings.memory.embeddings
    if not wanted:
        return None
    if found := trouble(wanted, home.path):
        log.warning("recall.without_vectors", reason=found[0], todo=found[1])
        return None
    if wanted.startswith(LOCAL):
        return LocalEmbedder(folder_of(wanted, home.path))
    timeout_s = settings.agents.defaults.request_timeout_s
    return ApartEmbedder(wanted, reached(settings, environ), litellm, timeout_s=timeout_s)


def _embedding(
    index: SqliteRecallIndex, embedder: Embedder, settings: Settings, clock: Clock, zone: tzinfo, meter: Meter | None
) -> Embedding | None:
    if embedder.is_local:
        return Embedding(index, embedder, clock)
    defaults = settings.agents.defaults
    daily = DailyLimits(defaults.daily_token_limit, defaults.daily_cost_limit_usd, "recall")
    return Embedding(index, embedder, clock, Purse(meter, clock, zone, daily)) if meter else None


def telegram(
    ground: Ground,
    door: TelegramDoor,
    aliases: Mapping[str, str],
    moved: Callable[[str, str], Awaitable[None]],
    menu: Sequence[tuple[str, str]],
) -> "TelegramChannel":
    """The channel of the settings' bot; `moved` is told when a chat gets a new id."""
    with without("click"):  # for httpx as a command of the shell: 30 modules
        from nanomem.channels.telegram import TelegramChannel

    given = ground.settings.channels.telegram
    return TelegramChannel(
        given.token.reveal(ground.environ),
        door,
        ground.clock,
        base_url=given.base_url,
        base_file_url=given.base_file_url,
        proxy=given.proxy,
        group_policy=given.group_policy,
        commands=menu,
        aliases=aliases,
        on_migration=moved,
    )
