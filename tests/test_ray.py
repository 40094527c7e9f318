"""A run spread over a real Ray cluster of two workers: the same rows, also when a worker is killed."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager

import psutil
import pytest
import torch

from sdlg.errors import BadOption, ModelNotFound
from sdlg.evaluation.plan import make_plan
from sdlg.evaluation.ray_engine import ray_engine, share_of
from sdlg.evaluation.run import run_evaluation
from test_evaluation import QUESTIONS, stored, write

pytest.importorskip("ray")


@pytest.fixture(autouse=True)
def _workers_are_not_nice(monkeypatch):
    """Ray's workers give way to everyone else, which on a busy machine means that they wait for minutes."""
    monkeypatch.setenv("RAY_worker_niceness", "0")


def plan_of(data, folders, **others):
    changes = {"samples": 3, "max_tokens": 5}
    return make_plan(
        data, model=folders[0], nli=folders[1], changes=changes, methods=("sdlg", "multinomial"),
        measures=("SE*_SDLG", "PE", "share_entropy"), **others,
    )  # fmt: skip


@contextmanager
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def workers():
    """Processes of this test's cluster that hold a worker."""
    return [
        process.pid
        for process in psutil.Process().children(recursive=True)
        if any(part.startswith("ray::Worker") for part in process.cmdline())
    ]


def test_two_workers_one_killed_the_same_rows(tmp_path, tiny_folders):
    plan = plan_of(write(tmp_path / "q.jsonl", QUESTIONS[:12]), tiny_folders)
    with one_thread():  # as Ray's workers have: sums in another order differ in their last bits
        run_evaluation(plan, tmp_path / "local")
    killed = []

    def kill_one(progress):
        if progress.finished == 3:
            assert len(workers()) == 2
            killed.append(workers()[0])
            os.kill(killed[0], signal.SIGKILL)

    run_evaluation(plan, tmp_path / "spread", engine=ray_engine(None, 2), watch=kill_one)
    assert killed
    assert stored(tmp_path / "spread") == stored(tmp_path / "local")


def test_an_error_on_a_worker_is_the_error_of_the_run(tmp_path, tiny_folders):
    plan = plan_of(write(tmp_path / "q.jsonl", QUESTIONS[:1]), (str(tmp_path / "no-model"), tiny_folders[1]))
    with pytest.raises(ModelNotFound, match="no-model"):
        run_evaluation(plan, tmp_path / "run", engine=ray_engine(None, 1))


def test_no_workers_is_told():
    with pytest.raises(BadOption, match="--workers must be at least 1, not 0"):
        ray_engine(None, 0)


@pytest.mark.parametrize(
    ("nodes", "workers", "share"),
    [
        ([{"CPU": 2.0}], 2, {"num_cpus": 1.0}),
        ([{"CPU": 2.0}], 4, {"num_cpus": 0.5}),
        ([{"CPU": 8.0}] * 4, 2, {"num_cpus": 8.0}),
        ([{"CPU": 8.0, "GPU": 1.0}, {"CPU": 4.0, "GPU": 1.0}], 3, {"num_cpus": 2.0, "num_gpus": 0.5}),
    ],
)
def test_all_workers_fit_on_the_nodes(nodes, workers, share):
    """A share that fits nowhere would be waited for forever."""
    assert share_of(nodes, workers) == share
