"""Show what a cluster does: tasks, devices, sessions, rates, queues, waits, stragglers.

    penstock status grpc://localhost:2222
    penstock status grpc://localhost:2222 --watch
    penstock status grpc://localhost:2222 --page      # the address of a page for the browser, served by that task

Any task of the cluster can answer. Tasks of the same user, and of `penstock launch`, need no other setting; others need a
secret: PENSTOCK_SECRET or PENSTOCK_SECRET_FILE.
"""
from __future__ import annotations

import argparse
import json
import sys
import time

from penstock._src.cluster import status


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    parser.add_argument("target", help="a task of the cluster: grpc://host:port")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--watch", action="store_true", help="again every two seconds, until Ctrl-C")
    how.add_argument("--page", action="store_true", help="have the task serve a page, and print its address")
    how.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds that the task has to answer (default: 10)")


def run(args: argparse.Namespace) -> int:
    """Queries the cluster and prints the answer."""
    if args.page:
        print(status.ask(args.target, "page", args.timeout)["url"])
        return 0
    try:
        while True:
            tasks = status.ask(args.target, timeout=args.timeout)["tasks"]
            if args.json:
                print(json.dumps(tasks, indent=1))
                return 0
            _show(status.tables(tasks), clear=args.watch)
            if not args.watch:
                return 0
            time.sleep(2.0)
    except KeyboardInterrupt:
        return 0


def _show(tables: list, clear: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 200)
    if clear:
        console.clear()
    for title, headers, rows in tables:
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for header in headers:
            table.add_column(header, overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table)
        console.print()
