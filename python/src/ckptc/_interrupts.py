"""Runs that an interrupt stops.

Python runs the handlers of signals in its main thread, between two of its instructions, and so not while that thread is
in the library. So another thread calls the library, and the main thread waits.
"""
from __future__ import annotations

import ctypes as c
import threading
from typing import Any

from ._library import Owned, RunOptions


def run_stoppable(name: str, chain: Any, input_: Any, options: RunOptions) -> Owned:
    """Returns the result of ckptc_NAME. An exception of a signal's handler stops the run, and comes out when it ended."""
    if threading.current_thread() is not threading.main_thread():
        return Owned("result_free", name, chain, input_, c.byref(options))
    stop = c.c_int(0)
    options.stop = c.pointer(stop)
    results: list[Owned] = []
    failures: list[BaseException] = []
    ended = threading.Lock()

    def compute() -> None:
        try:
            results.append(Owned("result_free", name, chain, input_, c.byref(options)))
        except BaseException as failure:
            failures.append(failure)
        finally:
            ended.release()

    ended.acquire()
    threading.Thread(target=compute, name="ckptc", daemon=True).start()
    interrupt: BaseException | None = None
    while True:
        try:
            ended.acquire()
            break
        except BaseException as raised:  # that of a handler; a second one while the run ends replaces it
            interrupt, stop.value = raised, 1
    if interrupt is not None:
        raise interrupt
    if failures:
        raise failures[0]
    return results[0]
