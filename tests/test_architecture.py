"""The floor plan: arrows point right, heavy packages stay in their room, `import sdlg` is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "sdlg"

# Left to right. A module may import from its own column and from those to its left.
COLUMNS = [
    {"errors", "records"},
    {"options"},
    {"files", "progress", "questions", "sentences"},
    {"concurrency", "loading"},
    {"models"},
    {"nli", "similarity"},
    {"scoring", "clustering"},
    {"sampling"},
    {"measures"},
    {"result", "schema"},
    {"calibration"},
    {"loaded"},
    {"long_answers"},
    {"pipeline"},
    {"asking"},
    {"browser"},
    {"views"},
    {"evaluation"},
    {"serving"},
    {"integrations"},
    {"cli"},
]
# Inside `models`, likewise: what all engines share, then the engines, then the choice among them.
MODEL_COLUMNS = [
    {"base", "catalogue", "codes", "fetching", "pieces", "prompts", "stopping"},
    {"decoding", "scripted"},
    {"transformers", "server"},
    {"llama"},
    {"__init__"},
]
# Where a heavy package may be imported: a module, or a folder and all that is in it.
LOADERS = {"similarity/encoders", "nli/classifier", "evaluation/correctness/bleurt", "loading/pretrained"}
ROOMS = {
    "torch": LOADERS | {"models/decoding", "models/transformers", "models/llama/sequences", "models/server/search"},
    "transformers": LOADERS | {"models/transformers"},
    "cffi": {"models/llama/library"},
    "xllamacpp": {"models/llama"},
    "gguf": {"models/transformers/gguf"},
    "httpx2": {"models/server/connection"},
    "tenacity": {"models/server/connection"},
    "pydantic": {"schema", "calibration", "evaluation/store", "serving", "integrations/mcp_server"},
    "rich": {"views", "evaluation/progress_view", "cli/listing", "cli/show", "integrations/llm_plugin"},
    "sentencex": {"sentences"},
    "mcp": {"integrations/mcp_server"},
    "llm": {"integrations/llm_plugin"},
    "click": {"integrations/llm_plugin"},
    "langchain_core": {"integrations/langchain"},
    "inspect_ai": {"integrations/inspect_plugin"},
    "anyio": {"integrations/inspect_plugin"},
    "lm_eval": {"integrations/lm_eval_plugin"},
    "rouge_score": {"evaluation/correctness/lexical"},
    "sklearn": {"evaluation/risk_fitting", "evaluation/same_answer_fit"},
    "scipy": {"evaluation"},
    "matplotlib": {"evaluation/reliability_plot", "evaluation/report/figures"},
    "jinja2": {"evaluation/report/page", "models/llama/tokenizer"},
    "pandas": {"evaluation/frames", "evaluation/report"},
    "pyarrow": set(),  # by pandas
    "datasets": {"evaluation/datasets", "integrations/lm_eval_plugin"},
    "ray": {"evaluation/ray_engine"},
    "fastapi": {"serving"},
    "starlette": {"serving"},
    "prometheus_client": {"serving/metrics"},
    "uvicorn": {"serving/listening"},
}
# What importing a module must not import, by whatever way: torch alone takes over a second.
LIGHT = {
    "__init__": {*ROOMS, "numpy"},
    "cli/__init__": {*ROOMS, "numpy"},
    "pipeline": {*ROOMS} - {"pydantic"},
    "models/server/served": {"torch", "transformers"},
    "schema": {*ROOMS, "numpy"} - {"pydantic"},
    "measures/measuring": {*ROOMS},
    "evaluation/results": {*ROOMS} - {"pydantic"},
}
LATE = {"result": {"views"}}  # a result shows itself in a notebook: imported when it does


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).with_suffix("").as_posix()
        yield name, ast.parse(path.read_text())


def imports(tree):
    """(package, level) of every import but those for type checkers."""
    for node in ast.walk(tree):  # a walk of its own: it has the children before it gives the node
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield (node.module or ""), node.level, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, 0, []


def arrows(room=()):
    """(module, what it imports) among the parts of a folder; each part is a module or a folder."""
    for name, tree in modules():
        parts = name.split("/")
        if tuple(parts[: len(room)]) != room:
            continue
        for module, level, names in imports(tree):
            if level != len(parts) - len(room):  # not to a neighbour in this folder
                continue
            for target in [module.split(".")[0]] if module else names:
                yield name, parts[len(room)], target


def check_arrows(columns, found):
    place = {name: number for number, names in enumerate(columns) for name in names}
    for name, part, target in found:
        assert place[target] <= place[part], f"{name} imports {target}, which is to its right"


def test_no_arrow_points_left():
    found = list(arrows())
    assert len(found) > 300
    check_arrows(
        COLUMNS,
        (
            (name, part, target)
            for name, part, target in found
            if part != "__init__" and target != "__version__" and target not in LATE.get(part, ())
        ),
    )


def test_no_arrow_between_the_engines_points_left():
    files = {path.stem for path in (SOURCE / "models").iterdir()}
    found = [arrow for arrow in arrows(("models",)) if arrow[2] in files]
    assert len(found) > 50
    check_arrows(MODEL_COLUMNS, found)


def test_heavy_packages_stay_in_their_room():
    for name, tree in modules():
        places = {name, *(str(folder) for folder in PurePosixPath(name).parents)}
        for module, level, _ in imports(tree):
            package = module.split(".")[0]
            if level == 0 and package in ROOMS:
                assert places & ROOMS[package], f"{name} imports {package}"


def imported_at_once(tree):
    """(module, level, names) of the imports that run when the module is imported: not those inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            node.body = []
    yield from imports(tree)


def everything_imported(name, trees, seen):
    """Foreign packages that importing a module brings along, and the modules on the way."""
    if name in seen:
        return
    seen.add(name)
    package = name.split("/")[:-1]
    yield from everything_imported("/".join([*package[:-1], "__init__"]), trees, seen) if package else ()
    for module, level, names in imported_at_once(trees[name]):
        if level == 0:
            yield module.split(".")[0], name
            continue
        base = [*package[: len(package) - level + 1], *(module.split(".") if module else [])]
        for target in [base, *([*base, one] for one in names)]:
            for path in ("/".join(target), "/".join([*target, "__init__"])):
                if path in trees:
                    yield from everything_imported(path, trees, seen)


@pytest.mark.parametrize("name", LIGHT)
def test_light_modules_bring_nothing_heavy_along(name):
    heavy = {
        (package, by) for package, by in everything_imported(name, dict(modules()), set()) if package in LIGHT[name]
    }
    assert not heavy


def test_importing_sdlg_imports_nothing_heavy():
    heavy = ("torch", "transformers", "numpy", "rich", "pydantic")
    code = f"import sdlg, sdlg.cli, sys; print([m for m in {heavy} if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_every_public_name_is_there():
    import sdlg

    assert all(getattr(sdlg, name) is not None for name in sdlg.__all__)
    assert set(dir(sdlg)) == set(sdlg.__all__)
