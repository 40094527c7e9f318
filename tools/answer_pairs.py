"""Training pairs: do two answers to one question say the same?

In: the shared data folder. Out: endless draws of `Pair`s, one source per idea. Labels: 0 contradiction, 1 neutral,
2 entailment (with a question in front: "answers the question in the same way"). Not read: judged_answers/dev, odd rows of
the NLI dev sets, the first half of TriviaQA's validation split and its train split. A hash-chosen part of the judged train
questions (`held_out`) is kept for fitting what comes after the network, and dev's questions are dropped from the aliases.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from asked_pairs import (
    MONTHS,
    Drawn,
    branch_pair,
    code_pair,
    day_pair,
    decline_pair,
    list_pair,
    person_pair,
    reason_pair,
    year_pair,
)

Pair = tuple[str, str, int]  # first text, second text, label
LABELS = {"contradiction": 0, "neutral": 1, "entailment": 2}
NUMBER = re.compile(r"\d[\d,]*")
REFUSAL = re.compile(
    r"\b(as an ai|i['’]?m sorry|i am sorry|i do not|i don['’]?t|couldn['’]?t find|could not find|cannot answer|can['’]?t answer|not able to|unable to"
    r"|no information|not sure|unclear|not enough information)\b",
    re.I,
)


def read_rows(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.open(encoding="utf-8") if line.strip()]


def plain(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def held_out(question_id: str, percent: int = 15) -> bool:
    """Kept from the network's training, for fitting the equivalence."""
    return int(hashlib.sha256(question_id.encode()).hexdigest(), 16) % 100 < percent


@dataclass(frozen=True)
class Judged:
    question: str
    golden: tuple[str, ...]
    right: tuple[str, ...]
    wrong: tuple[str, ...]


def read_judged(data: Path, longest: int = 240) -> list[Judged]:
    """The judged train questions that are not held out."""
    found = []
    for row in read_rows(data / "judged_answers" / "train.jsonl"):
        if held_out(row["id"]):
            continue
        golden = tuple(dict.fromkeys(g.replace("\xa0", " ") for g in row["golden"] if usable_alias(g)))[:8]
        texts = [(a["text"], a["right"]) for a in row["answers"] if len(a["text"]) <= longest]
        right = tuple(dict.fromkeys(t for t, r in texts if r))
        found.append(Judged(row["question"], golden, right, tuple(dict.fromkeys(t for t, r in texts if not r))))
    return found


def usable_alias(alias: str) -> bool:
    bad = ("list of", "iso 639", "atc", "disambiguation", "%", "history of", "sport in", "culture of")
    return 1 < len(alias) < 45 and "(" not in alias and not any(b in alias.lower() for b in bad)


def kind(question: str, answer: str) -> str:
    """Answers of one kind can stand for each other: a person for a person, roughly."""
    words = question.lower().split()
    place = any(w in question.lower() for w in ("where", "city", "country", "capital", "state", "river", "county"))
    return (
        "number"
        if NUMBER.search(answer)
        else f"{answer[:1].isupper()} {min(len(answer.split()), 3)} {'who' in words[:3]} {place}"
    )


class Rivals:
    """Wrong answers that could have been given."""

    def __init__(self, known: list[tuple[str, tuple[str, ...]]]) -> None:
        self.by_kind: dict[str, list[str]] = defaultdict(list)
        self.by_start: dict[str, list[str]] = defaultdict(list)
        self.by_word: dict[str, list[str]] = defaultdict(list)
        for question, aliases in known:
            for alias in aliases[:3]:
                self.by_kind[kind(question, alias)].append(alias)
            self.by_start[" ".join(question.lower().split()[:2])].append(random.choice(aliases[:3]))
            for word in set(plain(aliases[0]).split()):
                if len(word) > 2:
                    self.by_word[word].append(aliases[0])

    def draw(self, question: str, answer: str, also: tuple[str, ...] = ()) -> str | None:
        """Another answer, alike in kind; none of `also`."""
        if NUMBER.search(answer) and random.random() < 0.6:
            return changed_number(answer)
        taken = {plain(a) for a in (answer, *also)}
        words = [w for w in plain(answer).split() if len(w) > 2]
        for _ in range(6):
            chance = random.random()
            if chance < 0.25 and words:
                pool = self.by_word.get(random.choice(words), [])
            elif chance < 0.55:
                pool = self.by_start.get(" ".join(question.lower().split()[:2]), [])
            else:
                pool = self.by_kind.get(kind(question, answer), [])
            rival = random.choice(pool) if pool else None
            if rival and not any(plain(rival) in t or t in plain(rival) for t in taken if t):
                return rival
        return None


def changed_number(text: str) -> str | None:
    def other(match: re.Match[str]) -> str:
        value = int(match.group().replace(",", "") or 0)
        return str(max(0, value + random.choice([-50, -10, -3, -2, -1, 1, 2, 3, 10, 25])))

    spots = list(NUMBER.finditer(text))
    spot = random.choice(spots)
    changed = text[: spot.start()] + other(spot) + text[spot.end() :]
    if random.random() < 0.2:
        changed = re.sub("|".join(MONTHS), lambda m: random.choice(MONTHS), changed)
    return changed if plain(changed) != plain(text) else None


# -- answers that people judged ---------------------------------------------------------------------------------------


def judged_pair(rows: list[Judged]) -> Callable[[], Drawn]:
    """Two right answers are the same, a right and a wrong one are not. Every question weighs the same."""
    mixed = [r for r in rows if r.right and r.wrong]
    agreed = [r for r in rows if len(r.right) > 1]

    def draw() -> Drawn:
        if random.random() < 0.5:
            row = random.choice(mixed)
            wrong = random.choice(row.wrong)
            return row.question, random.choice(row.right), wrong, 1 if REFUSAL.search(wrong) else 0
        # Half of the agreeing pairs from questions that also have wrong answers: the harder ones.
        row = random.choice(mixed if random.random() < 0.5 else agreed)
        return (row.question, *random.sample(row.right, 2), 2) if len(row.right) > 1 else None

    return draw


def golden_pair(rows: list[Judged]) -> Callable[[], Drawn]:
    """The golden answer is one more right answer."""
    rows = [r for r in rows if r.golden]

    def draw() -> Drawn:
        row = random.choice(rows)
        if random.random() < 0.5:
            if not row.wrong:
                return None
            wrong = random.choice(row.wrong)
            return row.question, random.choice(row.golden), wrong, 1 if REFUSAL.search(wrong) else 0
        if not row.right:
            return None
        inside = [g for g in row.golden if any(plain(g) in plain(t) for t in row.right)]
        pool = inside if inside and random.random() < 0.6 else row.golden
        return row.question, random.choice(pool), random.choice(row.right), 2

    return draw


def two_wrong_pair(rows: list[Judged]) -> Callable[[], Drawn]:
    """Two wrong answers, one of them short: the same if the other holds it, different if they share no word."""
    rows = [r for r in rows if len(r.wrong) > 1]

    def draw() -> Drawn:
        row = random.choice(rows)
        one, other = random.sample(row.wrong, 2)
        if REFUSAL.search(one) or REFUSAL.search(other):
            both = REFUSAL.search(one) and REFUSAL.search(other)
            return row.question, one, other, 2 if both else 1
        asked = set(plain(row.question).split())
        words, others = set(plain(one).split()) - asked, set(plain(other).split()) - asked
        if min(len(words), len(others)) > 4 or not words or not others:
            return None
        if plain(one) in plain(other) or plain(other) in plain(one):
            return row.question, one, other, 2
        return (row.question, one, other, 0) if not {w[:5] for w in words} & {w[:5] for w in others} else None

    return draw


def exchange(text: str, old: str, new: str) -> str:
    at = text.lower().index(old.lower())
    return text[:at] + new + text[at + len(old) :]


def exchanged_pair(rows: list[Judged], rivals: Rivals) -> Callable[[], Drawn]:
    """Right sentences with their answer exchanged, a clause dropped, or a detail changed that nobody asked for."""
    good = []
    for row in rows:
        held = {t: max((g for g in row.golden if g.lower() in t.lower()), key=len, default="") for t in row.right}
        held = {t: g for t, g in held.items() if g and len(t.split()) > 3}
        if held:
            good.append((row, held))

    def draw() -> Drawn:
        row, held = random.choice(good)
        (text, answer), (frame, inside) = random.choice(list(held.items())), random.choice(list(held.items()))
        rival = rivals.draw(row.question, answer, row.golden)
        if not rival:
            return None
        wrong, chance = exchange(text, answer, rival), random.random()
        if chance < 0.30:  # the answer exchanged, most often in the same sentence
            return (
                row.question,
                random.choice([text, text, text, frame, answer]),
                random.choice([wrong, wrong, wrong, rival]),
                0,
            )
        if chance < 0.55:  # two wrong answers that differ
            second = rivals.draw(row.question, answer, (*row.golden, rival))
            if not second:
                return None
            other = exchange(*random.choice([(text, answer), (text, answer), (frame, inside)]), second)
            return row.question, wrong, random.choice([other, other, other, second]), 0
        if chance < 0.68:  # two wrong answers that agree
            return row.question, wrong, random.choice([rival, exchange(frame, inside, rival)]), 2
        if chance < 0.77:
            return without_clause(row.question, text, answer, random.choice([answer, rival]))
        if chance < 0.90:
            tails = [ending(*random.choice(list(random.choice(good)[1].items()))) for _ in range(2)]
            return with_other_ending(row.question, text, answer, random.choice([answer, rival]), tails)
        return with_other_detail(row.question, text, answer, random.choice([text, frame]))

    return draw


def without_clause(question: str, text: str, answer: str, kept: str) -> Drawn:
    whole = exchange(text, answer, kept)
    end = text.lower().index(answer.lower()) + len(kept)
    cuts = [
        m.start()
        for m in re.finditer(r"[,;.] |\s\(| and | which | who | in \d{4}| on | during | from ", whole)
        if m.start() >= end
    ]
    return (question, whole, whole[: random.choice(cuts)] + ".", 2) if cuts else None


def ending(text: str, answer: str) -> str:
    """What a sentence says after its answer."""
    return text[text.lower().index(answer.lower()) + len(answer) :].rstrip(". ")


def with_other_ending(question: str, text: str, answer: str, kept: str, tails: list[str]) -> Drawn:
    """One answer, and two ways to go on after it that nobody asked for."""
    begun = text[: text.lower().index(answer.lower())] + kept
    return (question, *(f"{begun}{tail}." for tail in tails), 2) if tails[0] != tails[1] else None


def with_other_detail(question: str, text: str, answer: str, beside: str) -> Drawn:
    if NUMBER.search(answer):
        return None
    at = text.lower().index(answer.lower())
    spots = [m for m in NUMBER.finditer(text) if not at <= m.start() < at + len(answer) and m.group() not in question]
    if not spots:
        return None
    spot = random.choice(spots)
    value = max(0, int(spot.group().replace(",", "")) + random.choice([-20, -3, -1, 1, 2, 15]))
    return question, beside, text[: spot.start()] + str(value) + text[spot.end() :], 2


# -- aliases, in sentences made of the question -----------------------------------------------------------------------

CLAUSES = (
    ", of course", ", as far as I know", ", in {y}", " in {y}", ", which is well known", ", as is well known", ", also in {y}", " (see {y})",
    ". It became famous in {y}", ". This has been known since {y}", ", according to Wikipedia", ", not {w} as some believe", ", although some say otherwise",
    ". Many people know this from school", ", and this was confirmed in {y}", ", rather than {w}",
)  # fmt: skip
_VERB = r"(is|was|has|had|won|plays|played|wrote|became|hosted|made|runs|starred|directed|lies|means|contains|produced|created|built|said|sang|invented|discovered|lived|ruled|died|developed|composed|designed|founded|killed|beat|led|joined|married|released|recorded|painted|published)"
_FRAMES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"^(?:who|what) (is|was|are|were) (the .+)$", re.I), "{2} {1} {x}."),
    (re.compile(r"^what (is|was) (.+)$", re.I), "{2} {1} {x}."),
    (re.compile(r"^who " + _VERB + r" (.+)$", re.I), "{x} {1} {2}."),
    (re.compile(r"^(?:which|what)(?: [\w'-]+){1,4}? " + _VERB + r" (.+)$", re.I), "{x} {1} {2}."),
    (re.compile(r"^where (is|was|are|were) (.+)$", re.I), "{2} {1} in {x}."),
    (re.compile(r"^(?:in|on|at|from) (?:which|what) .+? (?:is|was) (the .+)$", re.I), "{1} is in {x}."),
)


def statement(question: str, answer: str) -> str:
    """The answer in a sentence; of the question's own words where a rule fits."""
    body = question.strip().rstrip("?").strip()
    for pattern, form in _FRAMES:
        if (match := pattern.match(body)) and random.random() < 0.85:
            filled = form.format(*("", *match.groups(), "")[: len(match.groups()) + 1], x=answer)
            return filled[0].upper() + filled[1:]
    return random.choice(
        ["The answer is {}.", "It was {}.", "It is {}.", "I think it is {}.", "It's {}.", "The correct answer is {}."]
    ).format(answer)


def with_clause(text: str, rival: str | None) -> str:
    clause = random.choice([c for c in CLAUSES if rival or "{w}" not in c]).format(
        y=random.randint(1500, 2022), w=rival
    )
    return text.rstrip(".") + clause + "."


def read_aliases(data: Path) -> list[tuple[str, tuple[str, ...]]]:
    """TriviaQA, second half of the validation split, without the questions of judged_answers/dev or held out."""
    judged = read_rows(data / "judged_answers" / "dev.jsonl")
    judged += [r for r in read_rows(data / "judged_answers" / "train.jsonl") if held_out(r["id"])]
    closed = {plain(row["question"]) for row in judged}
    rows = [r for r in read_rows(data / "triviaqa.jsonl") if r["split"] == "validation"]
    found = []
    for row in rows[len(rows) // 2 :]:
        aliases = [a for a in row["aliases"] if usable_alias(a) and a.isascii()]
        first = [row["answer"]] if row["answer"] in aliases else []
        if aliases and plain(row["question"]) not in closed:
            found.append((row["question"], tuple(dict.fromkeys(first + aliases))))
    return found


def alias_pair(known: list[tuple[str, tuple[str, ...]]], rivals: Rivals) -> Callable[[], Drawn]:
    """Two names of one answer, or two answers; bare, in a sentence, in the same sentence, with a clause added."""

    def draw() -> Drawn:
        question, aliases = random.choice(known)
        one = random.choice(aliases)
        rival = rivals.draw(question, one, aliases)
        same = random.random() < 0.55
        other = random.choice(aliases) if same else rival
        if not other:
            return None
        form = random.random()
        if form < 0.45:
            texts = [one, other]
        elif form < 0.65:
            texts = [statement(question, one), other]
        else:
            texts = [
                s := statement(question, one),
                exchange(s, one, other) if random.random() < 0.6 else statement(question, other),
            ]
        if random.random() < 0.3:
            texts[0] = with_clause(texts[0], None if same else rivals.draw(question, one, (*aliases, other)))
        return (question, *texts, 2 if same else 0)

    return draw


# -- numbers, dates, yes and no, refusals -----------------------------------------------------------------------------

_UNITS = (("metres", "meters", "m"), ("kilometres", "kilometers", "km"), ("miles", "mi"), ("feet", "ft"), ("kilograms", "kg"), ("pounds", "lb", "lbs"), ("degrees Celsius", "°C"), ("degrees Fahrenheit", "°F"), ("percent", "%", "per cent"), ("dollars", "US dollars", "USD"), ("years", "years old"), ("seconds", "s"), ("minutes", "min"), ("inches", "in"), ("square kilometres", "km2", "sq km"), ("people", "inhabitants"), ("players", "players"), ("litres", "liters", "L"))  # fmt: skip
_SMALL = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
]


def spoken_number(value: int) -> str:
    forms = [f"{value:,}", str(value)]
    if value <= 20:
        forms += [_SMALL[value], _SMALL[value]]
    for size, word in ((10**9, "billion"), (10**6, "million"), (1000, "thousand")):
        if value >= size and value % (size // 100) == 0:
            forms += [f"{value / size:g} {word}"]
            break
    return random.choice(forms)


def number_pair(known: list[tuple[str, tuple[str, ...]]]) -> Callable[[], Drawn]:
    def draw() -> Drawn:
        thing, unit = random.choice(random.choice(known)[1]), random.choice(_UNITS)
        ask = random.choice(
            [
                "How tall is {}?",
                "How long is {}?",
                "How many {u} does {} have?",
                "How far away is {}?",
                "How much is {}?",
                "What is the size of {}?",
                "How many {u} are there in {}?",
            ]
        )
        question = ask.format(thing, u=unit[0])
        value = random.choice(
            [
                random.randint(0, 20),
                random.randint(2, 400),
                random.randint(100, 9999),
                random.randint(1, 99) * 10 ** random.randint(2, 8),
            ]
        )
        same = random.random() < 0.55
        other, other_unit = value, unit
        if not same:
            if random.random() < 0.2:
                other_unit = random.choice([u for u in _UNITS if u is not unit])
            else:
                other = max(
                    0,
                    random.choice(
                        [
                            value + random.choice([-2, -1, 1, 2, 3]),
                            value * 10,
                            value * 2,
                            value + max(1, value // 10),
                            max(0, value - max(1, value // 8)),
                        ]
                    ),
                )
        if (other, other_unit) == (value, unit) and not same:
            return None
        say = lambda n, u: random.choice(
            [
                "{n} {u}",
                "{n} {u}",
                "{t} is {n} {u}.",
                "It is {n} {u}.",
                "About {n} {u}.",
                "{n} {u} in total",
                "{n}" if same or u is unit else "{n} {u}",
            ]
        ).format(n=spoken_number(n), u=random.choice(u), t=thing)
        return question, say(value, unit), say(other, other_unit), 2 if same else 0

    return draw


def date_pair(known: list[tuple[str, tuple[str, ...]]]) -> Callable[[], Drawn]:
    def draw() -> Drawn:
        thing = random.choice(random.choice(known)[1])
        question = random.choice(
            [
                "When did {} begin?",
                "When was {} born?",
                "When was {} founded?",
                "On what date did {} end?",
                "When did {} first appear?",
                "When was {} released?",
            ]
        ).format(thing)
        date = (random.randint(1, 28), random.choice(MONTHS), random.randint(1500, 2023))
        day, month, year = date
        same = random.random() < 0.5
        if not same:
            change = random.randrange(3)
            day = (
                day
                if change
                else random.choice(
                    [d for d in (day % 28 + 1, day + 10, day % 10 + 1, random.randint(1, 28)) if d != day and d < 31]
                    or [day + 1]
                )
            )
            month = month if change != 1 else random.choice([m for m in MONTHS if m != month])
            year = year if change != 2 else year + random.choice([-10, -3, -2, -1, 1, 2, 4, 10, 100])
        forms = [
            "{m} {d}, {y}",
            "{d} {m} {y}",
            "On {m} {d}, {y}.",
            "{t}: {m} {d}, {y}",
            "It was on {d} {m} {y}.",
            "It happened on {m} {d}, {y}, in {p}.",
            "{d} {m}, {y}",
            "{s} {d}, {y}",
        ]
        form, place = random.choice(forms), random.choice(["London", "the United States", "Paris", "Japan"])
        second = form if random.random() < 0.4 and not same else random.choice(forms)
        say = lambda f, d, m, y: f.format(d=d, m=m, y=y, t=thing, p=place, s=m[:3])
        return question, say(form, *date), say(second, day, month, year), 2 if same else 0

    return draw


_YES = (
    "Yes",
    "Yes.",
    "Yes, it is.",
    "Yes, that is correct.",
    "That is true.",
    "True",
    "Correct.",
    "Yes, {s}",
    "Yes, {s}",
    "{S}",
    "Yes, indeed.",
)
_NO = (
    "No",
    "No.",
    "No, it is not.",
    "No, that is wrong.",
    "That is not true.",
    "False",
    "No, that is false.",
    "It is not true that {s}",
    "No, it is not true that {s}",
    "No, {s} is a myth.",
    "No, not at all.",
)


def yes_no_pair(sentences: list[str], known: list[tuple[str, tuple[str, ...]]], rivals: Rivals) -> Callable[[], Drawn]:
    asked = [(q, m, a) for q, a in known if (m := re.match(r"^(?:who|what) (is|was) (the .+?)\??$", q, re.I))]

    def draw() -> Drawn:
        one, other = random.choice([_YES, _NO]), random.choice([_YES, _NO])
        if random.random() < 0.5:
            said = random.choice(sentences).rstrip(".")
            said = said[0].lower() + said[1:]
            question = f"{random.choice(['Is it true that', 'Would you say that', 'Is it correct that'])} {said}?"
            say = lambda forms: random.choice(forms).format(s=said, S=said[0].upper() + said[1:] + ".")
            return question, say(one), say(other), 2 if one is other else 0
        question, match, aliases = random.choice(asked)
        be, rest = match.groups()
        x, rival = aliases[0], rivals.draw(question, aliases[0], aliases) or "something else"
        yes = (
            "Yes",
            "Yes.",
            f"Yes, it {be}.",
            f"Yes, {x} {be} {rest}.",
            f"{x} {be} {rest}.",
            f"Yes, {rest} {be} {x}.",
            "Correct.",
        )
        no = (
            "No",
            "No.",
            f"No, it {be} not.",
            f"No, {x} {be} not {rest}.",
            f"{x} {be} not {rest}.",
            f"No, {rest} {be} {rival}.",
            f"No, it {be} {rival}.",
        )
        one, other = random.choice([yes, no]), random.choice([yes, no])
        return f"{be.capitalize()} {x} {rest}?", random.choice(one), random.choice(other), 2 if one is other else 0

    return draw


# -- all of it ---------------------------------------------------------------------------------------------------------


def read_nli(file: Path) -> list[Pair]:
    return [(r["premise"], r["hypothesis"], LABELS[r["label"]]) for r in read_rows(file) if r.get("label") in LABELS]


def sources(data: Path, more_nli: Path | None, branches: Path | None) -> dict[str, Callable[[], Drawn]]:
    """Name → a draw of one pair (or none: draw again)."""
    judged, aliases = read_judged(data), read_aliases(data)
    rivals = Rivals([(r.question, r.golden) for r in judged if r.golden] + aliases)
    nli = {
        "cad": read_nli(data / "nli/cad_train.jsonl"),
        "snli": read_nli(data / "nli/snli_dev.jsonl")[::2],
        "mnli": read_nli(data / "nli/mnli_dev_matched.jsonl")[::2],
    }
    if more_nli is not None:
        nli["mnli"] += read_nli(more_nli / "mnli_train.jsonl")
        nli["conj"] = read_nli(more_nli / "conj_train.jsonl")
    sentences = [h for _, h, _ in nli["snli"] + nli["mnli"] if 15 < len(h) < 70]
    answered = [
        (r.question, texts)
        for r in judged
        if (texts := tuple(t for t in (*r.right, *r.wrong) if not REFUSAL.search(t)))
    ]
    draws: dict[str, Callable[[], Drawn]] = {
        "judged": judged_pair(judged), "golden": golden_pair(judged), "two_wrong": two_wrong_pair(judged), "exchanged": exchanged_pair(judged, rivals),
        "alias": alias_pair(aliases, rivals), "number": number_pair(aliases), "date": date_pair(aliases), "yes_no": yes_no_pair(sentences, aliases, rivals),
        "year": year_pair(aliases), "day": day_pair(aliases), "person": person_pair(aliases), "list": list_pair(aliases), "reason": reason_pair(sentences),
        "decline": decline_pair(answered), "code": code_pair(),
        **{name: (lambda rows=rows: ("", *random.choice(rows))) for name, rows in nli.items()},
    }  # fmt: skip
    if branches is not None:
        draws["branches"] = branch_pair(branches)
    return draws


SHARES = {
    "judged": 0.19, "golden": 0.07, "two_wrong": 0.02, "exchanged": 0.12, "alias": 0.13, "number": 0.02, "date": 0.01, "yes_no": 0.01, "year": 0.015,
    "day": 0.015, "person": 0.03, "list": 0.015, "reason": 0.015, "decline": 0.01, "code": 0.01, "branches": 0.06, "cad": 0.06, "snli": 0.06, "mnli": 0.14, "conj": 0.03,
}  # fmt: skip


def draw_pairs(data: Path, more_nli: Path | None, branches: Path | None, chunk: int = 4096) -> Iterator[list[Pair]]:
    """Chunks with every source's share. Answers of one text are skipped; NLI keeps its direction, answers have none."""
    draws = sources(data, more_nli, branches)
    while True:
        pairs: list[Pair] = []
        for name, share in SHARES.items():
            if name not in draws:
                continue
            wanted = len(pairs) + round(chunk * share)
            while len(pairs) < wanted:
                drawn = draws[name]()
                if drawn is None or (plain(drawn[1]) == plain(drawn[2]) and drawn[0]):
                    continue
                question, one, other, label = drawn
                if question and random.random() < 0.5:
                    one, other = other, one
                pairs.append((f"{question} {one}".strip(), f"{question} {other}".strip(), label))
        yield pairs


if __name__ == "__main__":
    import sys

    random.seed(1)
    found = sources(Path(sys.argv[1]), None, None)
    for name, draw in found.items():
        print("##", name)
        for _ in range(9):
            print("   ", draw())
