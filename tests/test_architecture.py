"""The floor plan: arrows point right, heavy packages stay in their room, `import sdlg` is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "sdlg"

# Left to right. A module may import from its own column and from those to its left.
COLUMNS = [
    {"errors", "records"},
    {"options"},
    {"concurrency", "loading"},
    {"models"},
    {"nli", "similarity"},
    {"scoring", "clustering"},
    {"sampling"},
    {"measures"},
    {"formats"},
    {"calibration"},
    {"pipeline"},
    {"asking"},
    {"browser"},
    {"views"},
    {"evaluation"},
    {"serving"},
    {"cli"},
]
LOCAL = {
    f"models/transformers/{name}"
    for name in (
        "beam_search", "decoding", "gguf", "kv_tree", "layouts", "loading", "masked_tree", "model", "network",
        "packing", "prefix_cache",
    )
}  # fmt: skip
LOADERS = {"similarity/encoders", "nli/classifier", "evaluation/correctness/bleurt", "loading/pretrained"}
ROOMS = {
    "torch": LOADERS | LOCAL | {"models/server/search"},
    "httpx2": {"models/server/connection"},
    "tenacity": {"models/server/connection"},
    "transformers": LOADERS | LOCAL,
    "rich": {"views/terminal", "views/progress", "evaluation/progress_view", "cli/ask"},
    "rouge_score": {"evaluation/correctness/lexical"},
    "sklearn": {"evaluation/risk_fitting", "evaluation/same_answer_fit"},
    "matplotlib": {"evaluation/reliability_plot", "evaluation/report/figures"},
    "jinja2": {"evaluation/report/page"},
    "pandas": {"evaluation/frames"}
    | {f"evaluation/report/{name}" for name in ("compute", "costs", "figures", "page", "scores", "sections")},
    "pyarrow": set(),
    "datasets": {"evaluation/datasets/__init__"},
    "ray": {"evaluation/ray_engine"},
    "fastapi": {"serving/app", "serving/openapi", "serving/listening"},
    "starlette": {f"serving/{name}" for name in ("app", "failures", "guards", "metrics", "streaming")},
    "pydantic": {"serving/bodies", "calibration/calibration", "calibration/maps"},
    "prometheus_client": {"serving/metrics"},
    "uvicorn": {"serving/listening"},
}  # fmt: skip
# What importing a module must not import, by whatever way: torch alone takes over a second.
LIGHT = {
    "__init__": {*ROOMS, "numpy"},
    "cli/__init__": {*ROOMS, "numpy"},
    "pipeline": {*ROOMS} - {"pydantic"},
    "models/server/served": {"torch", "transformers"},
    "formats/answers": {*ROOMS},
    "measures/measuring": {*ROOMS},
    "evaluation/results": {*ROOMS} - {"pydantic"},
}
LATE = {"formats": {"views"}}  # a result shows itself in a notebook: imported when it does


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


def column(name):
    return next(k for k, names in enumerate(COLUMNS) if name in names)


def test_no_arrow_points_left():
    for name, tree in modules():
        parts = name.split("/")
        if parts[0] == "__init__":
            continue
        for module, level, names in imports(tree):
            if level == 0 or level > len(parts):
                continue
            if level < len(parts):  # inside its own folder
                continue
            for target in [module.split(".")[0]] if module else names:
                if target in ("__version__",) or target in LATE.get(parts[0], ()):
                    continue
                assert column(target) <= column(parts[0]), f"{name} imports {target}, which is to its right"


def test_heavy_packages_stay_in_their_room():
    for name, tree in modules():
        for module, level, _ in imports(tree):
            package = module.split(".")[0]
            if level == 0 and package in ROOMS:
                assert name in ROOMS[package], f"{name} imports {package}"


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
    code = "import sdlg, sys; print([m for m in ('torch', 'transformers', 'numpy', 'rich') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_every_public_name_is_there():
    import sdlg

    assert all(getattr(sdlg, name) is not None for name in sdlg.__all__)
    assert set(dir(sdlg)) == set(sdlg.__all__)
