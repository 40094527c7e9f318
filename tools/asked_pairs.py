"""Training pairs that teach what was asked: year with year, person with person, set with set, code with code.

In: questions with the names of their answers. Out: draws of (question, answer, other answer, label), as in answer_pairs.py.
Each source changes what was asked for (another answer) or something that nobody asked for (the same answer).
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

Drawn = tuple[str, str, str, int] | None  # question, answer, other answer, label
Known = list[tuple[str, tuple[str, ...]]]  # question, names of its answer
DIFFERENT, NEUTRAL, SAME = 0, 1, 2
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
PLACES = (
    "London",
    "the United States",
    "Paris",
    "Japan",
    "Berlin",
    "New York City",
    "Rome",
    "the north of the country",
)
TAILS = (
    ", marking a turning point", " after years of preparation", ", which surprised many people", " following a long debate",
    ", an event that is still remembered", " under difficult circumstances", ", as reported at the time", " with great success",
    ", ending a long period of waiting", " in front of a large crowd", ", leading to many changes", " and it changed history",
)  # fmt: skip


def _pick(*choices: str) -> str:
    return random.choice(choices)


# -- dates ------------------------------------------------------------------------------------------------------------

_EVENTS = (
    ("{} fall", "{} fell"), ("{} begin", "{} began"), ("{} end", "{} ended"), ("{} open", "{} opened"),
    ("{} happen", "{} happened"), ("{} sink", "{} sank"), ("{} start", "{} started"), ("{} close", "{} closed"),
    ("{} win independence", "{} won independence"), ("{} first appear", "{} first appeared"), ("{} die", "{} died"),
)  # fmt: skip


def year_pair(known: Known) -> Callable[[], Drawn]:
    """A year is asked: months, days and places do not matter, the year does."""

    def draw() -> Drawn:
        thing = random.choice(random.choice(known)[1])
        ask, say = (form.format(thing) for form in random.choice(_EVENTS))
        question = _pick("In which year did {}?", "What year did {}?", "In what year did {}?").format(ask)
        year = random.randint(1400, 2024)
        other = (
            year if random.random() < 0.55 else max(1000, year + random.choice([-30, -10, -2, -1, 1, 2, 5, 10, 100]))
        )
        return question, _in_year(say, year), _in_year(say, other), SAME if other == year else DIFFERENT

    return draw


def _in_year(said: str, year: int) -> str:
    month, day = random.choice(MONTHS), random.randint(1, 28)
    when = _pick(f"in {year}", f"in {year}", f"in {month} {year}", f"on {month} {day}, {year}", f"in {month} of {year}")
    tail = _pick("", "", "", f" in {random.choice(PLACES)}", random.choice(TAILS))
    return _pick(f"{said} {when}{tail}.", f"{said} {when}{tail}.", str(year), f"It was {when}{tail}.")


def day_pair(known: Known) -> Callable[[], Drawn]:
    """A day is asked: what follows it does not matter; another day, month or year does; the year alone agrees."""

    def draw() -> Drawn:
        thing = random.choice(random.choice(known)[1])
        ask, say = (form.format(thing) for form in random.choice(_EVENTS))
        day, month, year = random.randint(1, 28), random.choice(MONTHS), random.randint(1500, 2024)
        same, change = random.random() < 0.5, random.randrange(3)
        other = (day, month, year)
        if not same:
            day2 = random.choice([d for d in range(1, 29) if d != day])
            month2 = random.choice([m for m in MONTHS if m != month])
            other = ((day2, month, year), (day, month2, year), (day, month, year + random.choice([-10, -1, 1, 2, 50])))[
                change
            ]

        def tell(d: int, m: str, y: int) -> str:
            date = _pick(f"{m} {d}, {y}", f"{d} {m} {y}")
            if same and random.random() < 0.12:
                date = _pick(f"{m} {y}")
            tail = _pick("", "", f" in {random.choice(PLACES)}", random.choice(TAILS), random.choice(TAILS))
            return _pick(f"{say} on {date}{tail}.", f"{date}{tail}.", f"{say} on {date}{tail}.", f"On {date}.")

        return f"When did {ask}?", tell(day, month, year), tell(*other), SAME if same else DIFFERENT

    return draw


# -- people -----------------------------------------------------------------------------------------------------------

_NATIONS = (
    "Spanish",
    "English",
    "American",
    "Italian",
    "German",
    "Scottish",
    "French",
    "Russian",
    "Japanese",
    "Indian",
)
_ROLES = (
    "writer",
    "scientist",
    "painter",
    "politician",
    "actor",
    "composer",
    "explorer",
    "engineer",
    "physicist",
    "singer",
)
_ACTS = (
    ("Who wrote {}?", "{x} wrote {t}", "{t} was written by {x}"),
    ("Who discovered {}?", "{x} discovered {t}", "{t} was discovered by {x}"),
    ("Who painted {}?", "{x} painted {t}", "{t} was painted by {x}"),
    ("Who won {}?", "{x} won {t}", "the winner of {t} was {x}"),
    ("Who invented {}?", "{x} invented {t}", "{t} was invented by {x}"),
    ("Who directed {}?", "{x} directed {t}", "{t} was directed by {x}"),
    ("Who was the leader of {}?", "{x} was the leader of {t}", "the leader of {t} was {x}"),
)  # fmt: skip


def person_pair(known: Known) -> Callable[[], Drawn]:
    """A person is asked: title, role, nation and years do not matter; another name or another first name does."""
    people = [
        n
        for q, names in known
        if q.lower().startswith("who")
        for n in names[:1]
        if re.fullmatch(r"([A-Z][\w.'-]+ ){1,2}[A-Z][\w'-]+", n)
    ]

    def draw() -> Drawn:
        question, *forms = random.choice(_ACTS)
        thing, person = random.choice(random.choice(known)[1]), random.choice(people)
        same = random.random() < 0.5
        first, last = person.split()[0], person.split()[-1]
        if same:
            names = [person, random.choice([person, person, last])]
        else:
            rival = random.choice(people)
            other = rival if random.random() < 0.7 else f"{rival.split()[0]} {last}"
            if other.split()[0] == first or other == person:
                return None
            names = [person, other]
        texts = [_about(form, name, thing) for form, name in zip(random.choices(forms, k=2), names, strict=True)]
        return question.format(thing), texts[0], _pick(texts[1], texts[1], names[1]), SAME if same else DIFFERENT

    return draw


def _about(form: str, name: str, thing: str) -> str:
    nation, role, year = random.choice(_NATIONS), random.choice(_ROLES), random.randint(1500, 2020)
    shown = _pick(
        name, name, name, f"the {nation} {role} {name}", f"{name}, a {nation} {role},", f"Sir {name}", f"Dr. {name}",
        f"{name} ({year}–{year + 60})", f"President {name}",
    )  # fmt: skip
    tail = _pick("", "", "", f" in {year}", f" in {random.choice(PLACES)}", random.choice(TAILS))
    text = form.format(x=shown, t=thing)
    return f"{text[0].upper()}{text[1:].rstrip(',')}{tail}."


# -- sets -------------------------------------------------------------------------------------------------------------


def list_pair(known: Known) -> Callable[[], Drawn]:
    """Several things are asked: their order does not matter; one that is missing, added or exchanged does."""
    names = [n[0] for _, n in known if n[0][:1].isupper() and len(n[0].split()) <= 2 and not re.search(r"\d", n[0])]

    def draw() -> Drawn:
        thing = random.choice(random.choice(known)[1])
        members = random.sample(names, random.randint(2, 5))
        question = _pick(
            "Name the members of {}.", "Which countries border {}?", "What are the parts of {}?", "Which are the colours of {}?",
            "What are the main types of {}?", "Who played in {}?",
        ).format(thing)  # fmt: skip
        other, chance = list(members), random.random()
        random.shuffle(other)
        label = SAME if chance < 0.5 else DIFFERENT
        if chance >= 0.75:
            other[random.randrange(len(other))] = random.choice(names)
        elif chance >= 0.6 and len(other) > 2:
            other.pop()
        elif chance >= 0.5:
            other.append(random.choice(names))
        if label == DIFFERENT and set(other) == set(members):
            return None
        return question, _listed(question, thing, members), _listed(question, thing, other), label

    return draw


def _listed(question: str, thing: str, members: list[str]) -> str:
    joined = f"{', '.join(members[:-1])}{_pick(' and ', ', and ')}{members[-1]}"
    lines = "\n".join(f"{k}. {m}" for k, m in enumerate(members, 1))
    lead = _pick("They are ", "These are ", f"The answer for {thing} is ", "There are several: ")
    return _pick(joined, f"{joined}.", f"{lead}{joined}.", f"{lead.strip()}\n{lines}", f"{thing}: {joined}.")


# -- yes and no, refusals ---------------------------------------------------------------------------------------------


def reason_pair(sentences: list[str]) -> Callable[[], Drawn]:
    """Yes or no is asked: other reasons do not matter."""

    def draw() -> Drawn:
        said, *reasons = (s.rstrip(".") for s in random.sample(sentences, 3))
        said, reasons = said[0].lower() + said[1:], [r[0].lower() + r[1:] for r in reasons]
        question = (
            f"{_pick('Is it true that', 'Would you say that', 'Do people believe that', 'Can one say that')} {said}?"
        )
        sides = [random.random() < 0.5, random.random() < 0.5]
        texts = []
        for side, reason in zip(sides, reasons, strict=True):
            word = "Yes" if side else "No"
            verdict = _pick(f"{word}.", f"{word}, {said if side else 'that is not true'}.", word)
            why = _pick("", f" This is because {reason}.", f" {reason[0].upper()}{reason[1:]}.", f" In fact, {reason}.")
            texts.append(f"{verdict.rstrip('.')}.{why}" if why else verdict)
        return question, texts[0], texts[1], SAME if sides[0] == sides[1] else DIFFERENT

    return draw


REFUSALS = (
    "I don't know.", "I'm sorry, but I don't have that information.", "As an AI language model, I cannot predict the future.",
    "As an AI language model, I don't have access to personal information.", "I'm sorry, but I can't assist with that.",
    "Could you please provide more context?", "Can you tell me more about what you mean?", "I need more information to answer this.",
    "Please specify which one you mean.", "I'm not sure what you are referring to.", "I do not have personal experiences.",
    "It is not possible to say.", "It is difficult to predict.", "I cannot provide real-time information.",
    "As of my last update, I don't have information about that.", "I'm not able to browse the internet.", "Unknown.",
    "I am an AI language model created by Alibaba Cloud, so I do not know that.", "There is no information available.",
    "Which one are you asking about?", "I'm sorry, I don't understand the question. Could you rephrase it?",
    "I recommend checking the official website for the latest information.", "Please check a reliable source for up-to-date data.",
    "I don't have enough information to answer that.", "Sorry, I cannot help with this request.", "That is not known.",
)  # fmt: skip


def decline_pair(answers: list[tuple[str, tuple[str, ...]]]) -> Callable[[], Drawn]:
    """Two refusals or questions back are one; a refusal and an answer are not."""

    def refuse(question: str) -> str:
        asked = question.strip().rstrip("?.")
        asked = asked[0].lower() + asked[1:]
        own = (
            f"I'm sorry, but I don't know {asked}.",
            f"I cannot say {asked}.",
            f"It is unclear {asked}.",
            f"I am not sure {asked}.",
        )
        return _pick(*REFUSALS, *random.sample(own, 2), *random.sample(own, 2))

    def draw() -> Drawn:
        question, known = random.choice(answers)
        if random.random() < 0.5:
            return question, refuse(question), refuse(question), SAME
        return question, random.choice(known), refuse(question), NEUTRAL

    return draw


# -- code -------------------------------------------------------------------------------------------------------------

_CODE: dict[str, tuple[str, ...]] = {
    "How do I read a file in Python?": ("open(path).read()", "Path(path).read_text()", "numpy.fromfile(path)", "input()"),
    "How do I sort a list in Python?": ("sorted(items)", "items.sort()", "items.reverse()", "sorted(items, reverse=True)"),
    "How do I join strings in Python?": ("', '.join(words)", "a + b", "f'{a}{b}'", "'%s' % a"),
    "How do I count the lines of a file in bash?": ("wc -l file", "grep -c '' file", "cat file", "ls -l file"),
    "How do I make a folder in bash?": ("mkdir name", "mkdir -p name", "touch name", "cp -r name"),
    "How do I get the length of a list in Python?": ("len(items)", "items.count(1)", "sum(items)", "max(items)"),
    "How do I copy a list in Python?": ("list(items)", "items[:]", "copy.deepcopy(items)", "items = other"),
    "How do I print in C?": ('printf("hello")', 'puts("hello")', 'scanf("%d", &x)', "return 0"),
    "How do I delete a file in Python?": ("os.remove(path)", "Path(path).unlink()", "shutil.rmtree(path)", "open(path, 'w')"),
    "How do I undo the last git commit?": ("git reset --soft HEAD~1", "git revert HEAD", "git reset --hard HEAD~1", "git stash"),
    "How do I select all rows in SQL?": ("SELECT * FROM t", "SELECT id FROM t", "DELETE FROM t", "SELECT COUNT(*) FROM t"),
    "How do I square a number in Python?": ("x ** 2", "x * x", "x ^ 2", "math.sqrt(x)"),
    "How do I lower-case a string in JavaScript?": ("s.toLowerCase()", "s.toUpperCase()", "s.trim()", "s.split('')"),
    "How do I list files in Python?": ("os.listdir('.')", "glob.glob('*')", "os.getcwd()", "sys.argv"),
    "How do I convert a string to an integer in Python?": ("int(text)", "float(text)", "str(number)", "ord(text)"),
    "How do I stop a loop in Python?": ("break", "continue", "pass", "return"),
}  # fmt: skip
_WORDINGS = (
    "You can use `{}`.", "To do this, you can use `{}`.", "Use `{}`.", "`{}`", "One way is `{}`, which does exactly that.",
    "You can do it with the following code:\n```\n{}\n```", "Here is how: `{}`. It is simple.", "The easiest way is to use `{}`.",
    "Here's an example:\n\n```python\n{}\n```", "Simply write `{}` and you are done.", "In most cases `{}` is what you need.",
)  # fmt: skip


def code_pair() -> Callable[[], Drawn]:
    """The same code in other words is one answer; other code is another."""

    def draw() -> Drawn:
        question, codes = random.choice(list(_CODE.items()))
        same = random.random() < 0.5
        one = random.choice(codes)
        other = one if same else random.choice([c for c in codes if c != one])
        return (
            question,
            random.choice(_WORDINGS).format(one),
            random.choice(_WORDINGS).format(other),
            SAME if same else DIFFERENT,
        )

    return draw


# -- a model's own branches -------------------------------------------------------------------------------------------


def branch_pair(file: Path) -> Callable[[], Drawn]:
    """Groups of answers that a model gave, labelled by us: {question, groups: [[text, …], …]} a line."""
    same, different = [], []
    for line in file.open(encoding="utf-8"):
        row = json.loads(line)
        for group in row["groups"]:
            same += [(row["question"], one, other, SAME) for one, other in combinations(group, 2)]
        for group, others in combinations(row["groups"], 2):
            different += [(row["question"], one, other, DIFFERENT) for one in group for other in others]
    return lambda: random.choice(same if random.random() < 0.5 else different)
