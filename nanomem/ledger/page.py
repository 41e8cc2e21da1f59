"""How a file is written: the current one, with what the judgement changes in it. Pure."""

from bisect import bisect_right
from collections import defaultdict

from nanomem.facts import COMMENT, FACTS, Block, Kind
from nanomem.ledger.judging import Judged
from nanomem.ledger.lines import (
    CONTRADICTED,
    Piece,
    apart,
    depth_of,
    ended,
    fits,
    indented,
    marked,
    still_open,
    with_comments,
)
from nanomem.ledger.state import Fact, written
from nanomem.wording import same


class Page:
    """A current file, and what the judgement changes in it."""

    def __init__(self, judged: Judged, file: int) -> None:
        self._judged, self._file = judged, file
        self._blocks = judged.now.files[file]
        self._wanted = judged.wanted.files[file]
        self._pieces: list[Block | Piece | None] = [*self._blocks]
        self._open_end = still_open(self._blocks[-1]) if self._blocks else ""
        self._before: dict[int, list[Piece]] = defaultdict(list)
        self._after: dict[int, list[Piece]] = defaultdict(list)
        self._tails: dict[int, list[list[Piece]]] = defaultdict(list)
        self._opened: dict[int, tuple[int, list[Piece]]] = {}  # new headings: where, and what is under them
        self._depths: dict[int, int] = {}  # of the proposal's facts, as they are shown
        self._here = {fact.at: fact for fact in judged.wanted.facts if fact.file == file}
        self._news = {fact for fact in judged.news if fact.file == file}
        self._placeholders = [at for at, block in enumerate(self._blocks) if block.kind == "placeholder"]
        self._left: set[int] = set()  # headings that a fact has left

    def text(self) -> str:
        """The file as it shall be."""
        stays = self._settle()
        self._adopt_headings()
        self._write_news(stays)
        self._indent_what_stays()
        self._mark()
        self._tidy()
        return self._joined()

    def _settle(self) -> dict[int, int]:
        """Takes out what goes, puts new words in place of old ones; gives the place of each of the proposal's facts
        that is there."""
        judged = self._judged
        stays: dict[int, int] = {}
        for new in self._here.values():
            fact = judged.there.get(new)
            if fact is None or new in judged.moved:
                continue
            if fact.file == self._file:
                stays[new.at] = fact.at
        for new in judged.moved:
            self._take_out(judged.there[new])
        for old in judged.doubles & judged.here.keys():
            self._leave_comments(judged.here[old])
        for old in judged.reasons.keys() & judged.here.keys():
            for copy in judged.now.by_key[old.key]:
                self._leave_comments(copy)
        for old, (new, *_) in judged.reworded.items():
            for copy in judged.now.by_key[old.key]:
                self._leave_comments(copy)
            fact = judged.here[old]
            is_home = judged.target(new) == fact.block.under or judged.is_flattened(new, fact)
            if self._file == new.file == fact.file and is_home and fits(new, fact) and new.at not in stays:
                stays[new.at] = fact.at
                self._pieces[fact.at] = Piece(fact.block.kind, fact.block.raw, fresh=True)
        return stays

    def _take_out(self, fact: Fact) -> None:
        if fact.file == self._file:
            self._pieces[fact.at] = None
            self._left.add(fact.block.under)

    def _leave_comments(self, fact: Fact) -> None:
        """Takes out a fact, but not what a person wrote beside it."""
        self._take_out(fact)
        if fact.file == self._file and "<!--" in fact.block.raw and fact.block.kind != "code":
            comments = [found for found in COMMENT.findall(fact.block.raw) if found != CONTRADICTED.strip()]
            if comments:
                self._pieces[fact.at] = Piece("comment", "\n".join(comments) + "\n")

    def _indent_what_stays(self) -> None:
        """Lets list items go along with the one they belong to: with its new indentation, or up where it is gone."""
        if all(block.parent < 0 for block in self._blocks):
            return
        shown: dict[int, int] = {}
        beside: dict[tuple[int, int], int] = {}
        for at, block in enumerate(self._blocks):
            piece, above = self._pieces[at], block.parent
            shown[at] = block.depth
            if piece and piece.raw is not block.raw:
                shown[at] = beside[above, block.depth] = depth_of(piece.raw)
            elif piece and above >= 0 and self._is_shifted(above, shown) | ((above, block.depth) in beside):
                step = block.depth - self._blocks[above].depth if self._pieces[above] else 0
                shown[at] = beside.get((above, block.depth), shown[above] + step)
                self._rewrite(at, indented(piece.raw, shown[at]))

    def _rewrite(self, at: int, raw: str, kind: Kind | None = None) -> None:
        piece = self._pieces[at] or self._blocks[at]
        self._pieces[at] = Piece(kind or piece.kind, raw, _is_fresh(piece))

    def _is_shifted(self, at: int, shown: dict[int, int]) -> bool:
        return self._pieces[at] is None or shown[at] != self._blocks[at].depth

    def _adopt_headings(self) -> None:
        """New titles and levels, where the owner has not changed the old ones."""
        old = {written(block) for block in self._judged.base.files[self._file] if block.kind == "heading"}
        for heading in self._judged.wanted.headings(self._file):
            at = self._judged.heading_target(self._file, heading)
            if at is not None and written(self._blocks[at]) in old:
                self._pieces[at] = Piece("heading", with_comments(self._wanted[heading], self._blocks[at]))

    def _write_news(self, stays: dict[int, int]) -> None:
        """Puts in what is new or moved, in the proposal's order, behind what stands before it there."""
        judged = self._judged
        is_flat = not judged.wanted.headings(self._file) and bool(judged.now.headings(self._file))
        section: int | None = judged.now.headings(self._file)[-1] if is_flat else -1
        anchors: dict[int | None, int | list[Piece]] = {}
        ahead: dict[int, int] = {}  # facts written before one that they contradict
        for at, new in self._here.items():
            if at in stays:
                there = stays[at]
                block = self._blocks[there]
                section = block.under
                anchors[section] = there
                is_same = new.block.raw == block.raw
                self._depths[at] = block.depth if is_same else self._write_in_place(new, there)
                continue
            if not is_flat:
                section = judged.target(new)
            raw = self._raw(new)
            if raw is None:
                continue
            opposed = [judged.here[old] for old in judged.against.get(new, ())]
            there = next((fact.at for fact in opposed if self._stands_for(fact, new, section)), -1)
            is_part = new.block.parent in ahead
            there = ahead.get(new.block.parent, there)  # with what it belongs to
            if section is None:
                self._write_in_new_section(new, raw)
            elif there >= 0:
                ahead[at] = there
                depth = self._depths[at] = self._depth(new) if is_part else self._blocks[there].depth
                self._before[there].append(Piece(new.block.kind, indented(raw, depth), fresh=True))
                anchors[section] = there
            else:
                if section not in anchors:
                    there = min((at for at in stays.values() if self._blocks[at].under == section), default=-1)
                anchors[section] = self._write_in_section(new, raw, section, anchors.get(section), there)

    def _write_in_place(self, new: Fact, at: int) -> int:
        """Gives a fact that stays where it is the proposal's spelling, if the owner has not changed it; returns how
        far it is indented."""
        block, piece, old = self._blocks[at], self._pieces[at], self._judged.source.get(new)
        is_old = old is None or (
            written(old.block) == written(block) != written(new.block)
            and self._judged.is_at_home(old)
            and not self._judged.is_rearranged(old.key)
        )
        if piece is None or not is_old or (new.block.kind == "row") != (block.kind == "row"):
            return block.depth
        if old is None and not _is_fresh(piece):  # both have put it in
            return block.depth
        depth = self._depth(new) if new.block.parent >= 0 else block.depth
        self._rewrite(at, indented(with_comments(new.block, block), depth), new.block.kind)
        return depth

    def _stands_for(self, fact: Fact, new: Fact, section: int | None) -> bool:
        """Whether a new fact can be written right before the one that it contradicts."""
        is_beside = fact.file == self._file and fact.block.under == section and fits(new, fact)
        return is_beside and self._judged.now.parent(fact) == self._judged.wanted.parent(new)

    def _raw(self, new: Fact) -> str | None:
        """How a fact is written that shall be put in; None for one that shall not."""
        if new in self._news:
            return with_comments(new.block, None)
        if new not in self._judged.moved:
            return None
        fact, old = self._judged.there[new], self._judged.source[new]
        return with_comments(new.block if written(fact.block) == written(old.block) else fact.block, fact.block)

    def _depth(self, new: Fact) -> int:
        parent = new.block.parent
        while parent >= 0 and parent not in self._depths:
            parent = self._wanted[parent].parent
        if parent >= 0:
            return self._depths[parent] + new.block.depth - self._wanted[new.block.parent].depth
        return new.block.depth if new.block.parent < 0 else 0

    def _write_in_section(
        self, new: Fact, raw: str, section: int, anchor: int | list[Piece] | None, first: int
    ) -> int | list[Piece]:
        """Writes it behind the anchor: a block, or what is put in before `first`. Gives the anchor of what follows."""
        depth = self._depths[new.at] = self._depth(new)
        piece = Piece(new.block.kind, indented(raw, depth), fresh=True)
        end = self._end(section)
        filled = self._placeholder(new, section, end)
        if filled is not None:
            self._pieces[filled] = None
            anchor = filled
        if anchor is None:
            if first >= 0:
                while (
                    first
                    and self._blocks[first].kind in ("row", "table")
                    and self._blocks[first - 1].kind in ("row", "table")
                ):
                    first -= 1
                anchor = self._before[first]
            else:
                anchor = end - 1
                while anchor > section and self._blocks[anchor].kind == "blank":
                    anchor -= 1
        where, at = (self._after[anchor], anchor) if isinstance(anchor, int) else (anchor, -1)
        if at >= 0:
            following = at + 1
            while following < end and self._goes_with(following, depth, piece.kind):
                following += 1
            if following - 1 > at:
                at = following - 1
                where = self._after[at]
        where.extend(self._table_head(new, where, at))
        where.append(piece)
        return at if at >= 0 else where

    def _goes_with(self, at: int, depth: int, kind: Kind) -> bool:
        """Whether a block belongs to what stands before it, so that nothing can come between them."""
        block = self._blocks[at]
        if block.kind in ("row", "table"):
            return kind != "row" or block.kind == "table"
        return block.kind in FACTS and block.depth > depth

    def _table_head(self, new: Fact, where: list[Piece], at: int) -> list[Piece]:
        """The head of the table that a row needs, where it is not written into one."""
        before = where[-1].kind if where else self._blocks[at].kind if at >= 0 else "blank"
        if new.block.kind != "row" or before in ("row", "table"):
            return []
        first = new.at
        while first > 0 and self._wanted[first - 1].kind in ("row", "table"):
            first -= 1
        return [
            Piece("table", ended(block.raw), fresh=True)
            for block in self._wanted[first : new.at]
            if block.kind == "table"
        ]

    def _placeholder(self, new: Fact, section: int, end: int) -> int | None:
        """The placeholder that a fact takes the place of: that of its label, or any under its heading."""
        label = new.block.text.partition(":")[0]
        for at in self._placeholders[bisect_right(self._placeholders, section) :]:
            block = self._blocks[at]
            if at < end and self._pieces[at]:
                head, colon, _ = block.text.partition(":")
                if (same(head) == same(label)) if colon else True:
                    return at
        return None

    def _write_in_new_section(self, new: Fact, raw: str) -> None:
        under = self._open(new.block.under)
        depth = self._depths[new.at] = self._depth(new)
        under.extend(self._table_head(new, under, -1))
        under.append(Piece(new.block.kind, indented(raw, depth), fresh=True))

    def _open(self, heading: int) -> list[Piece]:
        """The new section, written where it stands in the proposal; with those it is in."""
        if heading in self._opened:
            return self._opened[heading][1]
        above = self._wanted[heading].under
        if above >= 0 and self._judged.heading_target(self._file, above) is None:
            self._open(above)
        at = self._place_of(heading)
        pieces = [Piece("heading", with_comments(self._wanted[heading], None), fresh=True)]
        self._opened[heading] = (at, pieces)
        self._tails[at].append(pieces)
        return pieces

    def _place_of(self, heading: int) -> int:
        """The block of the current file that a new heading comes behind."""
        level = self._wanted[heading].depth
        headings = self._judged.wanted.headings(self._file)
        for other in reversed([at for at in headings if at < heading]):
            target = self._judged.heading_target(self._file, other)
            if other in self._opened:
                return self._opened[other][0]
            if target is not None:
                end = target + 1
                while end < len(self._blocks) and not (
                    self._blocks[end].kind == "heading" and self._blocks[end].depth <= level
                ):
                    end += 1
                return end - 1
        for other in headings:
            target = self._judged.heading_target(self._file, other)
            if other > heading and target is not None:
                return target - 1
        return len(self._blocks) - 1

    def _end(self, section: int) -> int:
        headings = self._judged.now.headings(self._file)
        following = bisect_right(headings, section)
        return headings[following] if following < len(headings) else len(self._blocks)

    def _mark(self) -> None:
        news = set(self._judged.news)
        for new, olds in self._judged.against.items():
            for old in olds if new in news else ():
                fact = self._judged.here[old]
                piece = self._pieces[fact.at] if fact.file == self._file else None
                if piece and piece.kind != "code" and "<!--" not in COMMENT.sub("", piece.raw):
                    self._rewrite(fact.at, marked(piece.raw, piece.kind))

    def _tidy(self) -> None:
        """Takes out heads of tables without rows, and headings that nothing is left under, as the proposal did."""
        heads = {same(block.text) for block in self._wanted if block.kind == "table"}
        for at, block in enumerate(self._blocks):
            if block.kind == "table" and same(block.text) not in heads and self._lost_its_rows(at):
                self._pieces[at] = None
        meant = {self._judged.heading_target(self._file, at) for at in self._judged.wanted.headings(self._file)}
        for at in reversed(range(len(self._blocks))):
            if self._blocks[at].kind == "heading" and at in self._left and at not in meant and self._is_bare(at):
                self._pieces[at] = None
                self._left.add(self._blocks[at].under)

    def _lost_its_rows(self, at: int) -> bool:
        gone = False
        while at < len(self._blocks) and self._blocks[at].kind in ("row", "table"):
            if self._blocks[at].kind == "row" and self._pieces[at]:
                return False
            if any(piece.kind == "row" for piece in self._after.get(at, ())):
                return False
            gone = gone or self._blocks[at].kind == "row"
            at += 1
        return gone

    def _is_bare(self, heading: int) -> bool:
        """Whether nothing is left under a heading, nor under those within it."""
        at = heading
        if self._after.get(at) or self._tails.get(at):
            return False
        at += 1
        while at < len(self._blocks):
            block, piece = self._blocks[at], self._pieces[at]
            if block.kind == "heading" and block.depth <= self._blocks[heading].depth:
                break
            if (piece and piece.kind != "blank") or self._before.get(at) or self._after.get(at):
                return False
            at += 1
        return True

    def _in_order(self) -> list[Block | Piece | None]:
        found: list[Block | Piece | None] = []
        done = 0
        for at in sorted({*self._before, *self._after, *self._tails}):
            found += self._pieces[done : max(at, 0)]
            found += self._before.get(at, ())
            found += self._pieces[max(at, 0) : at + 1]
            found += self._after.get(at, ())
            found += [one for tail in self._tails.get(at, ()) for one in tail]
            done = at + 1
        return found + self._pieces[done:]

    def _joined(self) -> str:
        ends_at = self._pieces[-1] if self._pieces else None
        lines: list[str] = []
        last: Block | Piece | None = None
        gap = False  # something is missing here
        for piece in self._in_order():
            if piece is None:
                gap = True
                continue
            if gap and piece.kind == "blank" and (last is None or last.kind == "blank"):
                continue
            if last is not None and (gap or _is_fresh(piece) or _is_fresh(last)):
                lines[-1] = ended(lines[-1], self._open_end if last is ends_at else "")
                if apart(last.kind, piece.kind):
                    lines.append("\n")
            lines.append(piece.raw)
            last, gap = piece, False
        return "".join(lines)


def _is_fresh(piece: Block | Piece) -> bool:
    return isinstance(piece, Piece) and piece.fresh
