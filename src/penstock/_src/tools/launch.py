"""Run a script as a cluster of processes: parameter servers and workers.

    penstock launch --ps 2 --workers 4 train.py --learning_rate=0.1

Each process gets its role in TF_CONFIG. It also gets those of the flags --job_name, --task_index, --ps_hosts and --worker_hosts
that occur in the text of the script, as textbook programs expect. A script that imports tensorflow is run as by `penstock run`.
Ports are chosen among the free ones of this machine. The secret is PENSTOCK_SECRET or, by default, that of the user: the
`penstock status` command that is printed at the start, with the addresses and a status page, needs no other setting. The output
of the tasks is prefixed with their names. A task that dies is restarted after a growing pause, at most --restarts times. The
job is done when all tasks except the parameter servers have succeeded. Ctrl-C ends all of them. The exit status is 0, or that
of the task that failed too often.

With --on ray, tasks are actors of a Ray cluster (pip install 'penstock[ray]'): Ray places them, restarts them and
collects their logs. The job begins when Ray has room for all of its tasks. With --max-workers, more workers join it whenever
there is room for them, and leave it when their machine is taken away; --worker-cpus and --worker-gpus say what a worker needs.
"""
from __future__ import annotations

import argparse
import shutil
import signal
import sys
import threading

from penstock._src.cluster.launch import Launcher, cluster_of, local_tasks, watched


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    parser.add_argument("--ps", type=int, default=1, metavar="N", help="parameter servers (default: 1)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="workers (default: 2)")
    parser.add_argument("--chief", action="store_true", help="a chief beside the workers; else worker 0 is the chief")
    parser.add_argument("--coordinated", action="store_true",
                        help="a chief that coordinates: workers serve, as parameter servers do, and end when it has")
    parser.add_argument("--evaluator", action="store_true", help="a task that evaluates, outside of the cluster")
    parser.add_argument("--plain-ps", action="store_true", help="parameter servers run `penstock server` and not the script")
    parser.add_argument("--restarts", type=int, default=3, metavar="N", help="how often a task is started again (default: 3)")
    parser.add_argument("--on", choices=("here", "ray"), default="here", help="this machine, or a Ray cluster")
    parser.add_argument("--address", help="of the Ray cluster; a local one is started, if left out")
    parser.add_argument("--max-workers", type=int, default=0, metavar="N",
                        help="on Ray: so many workers at most; those above --workers come and go with the machines")
    parser.add_argument("--worker-cpus", type=float, default=0.1, metavar="N", help="on Ray: CPUs of a worker (default: 0.1)")
    parser.add_argument("--worker-gpus", type=float, default=0.0, metavar="N", help="on Ray: GPUs of a worker (default: 0)")
    parser.add_argument("script", help="the program that every task runs")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")


def run(args: argparse.Namespace) -> int:
    """Runs the cluster; returns the exit status."""
    jobs = {"ps": args.ps, "chief": int(args.chief or args.coordinated), "worker": args.workers,
            "evaluator": int(args.evaluator)}
    if min(args.ps, args.workers) < 0 or args.workers + args.chief < 1:
        raise ValueError("A cluster needs a worker or a chief, and no number of tasks may be negative.")
    if args.on == "ray":
        return _on_ray(args, jobs)
    if args.max_workers:
        raise ValueError("--max-workers is for Ray (--on ray).")
    screen = _Screen()
    launcher = Launcher(local_tasks([args.script, *args.args], jobs, args.plain_ps), args.restarts, screen.say,
                        screen.status if sys.stdout.isatty() else None,
                        ("ps", "worker") if args.coordinated else ("ps",))
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, lambda number, _: launcher.stop(128 + number))
    with watched(cluster_of(launcher.tasks), lambda line: screen.say(f"-- {line}")):
        code = launcher.run()
    screen.say(f"-- {launcher.summary()}")
    return code


def _on_ray(args: argparse.Namespace, jobs: dict[str, int]) -> int:
    if args.coordinated:
        raise ValueError("--coordinated is for this machine (--on here).")
    if args.max_workers and args.max_workers < args.workers:
        raise ValueError(f"--max-workers is {args.max_workers}, fewer than the {args.workers} workers of the beginning.")
    from penstock._src.cluster.launch_ray import Options, launch
    options = Options(args.plain_ps, args.restarts, args.max_workers, args.worker_cpus, args.worker_gpus)
    return launch([args.script, *args.args], jobs, options, args.address)


class _Screen:
    """Lines of many tasks, and below them one that changes."""

    def __init__(self) -> None:
        self._lock, self._shown = threading.Lock(), ""

    def say(self, line: str) -> None:
        """Prints a line above the status."""
        with self._lock:
            sys.stdout.write(f"\r\x1b[K{line}\n{self._shown}" if self._shown else f"{line}\n")
            sys.stdout.flush()

    def status(self, text: str) -> None:
        """Changes the last line."""
        text = text[:shutil.get_terminal_size().columns - 1]
        with self._lock:
            if text != self._shown:
                self._shown = text
                sys.stdout.write(f"\r\x1b[K{text}")
                sys.stdout.flush()
