"""Runs that an interrupt stops.

Python runs the handlers of signals in its main thread, between two of its instructions, and so not while that thread is
in the library. So another thread calls the library, and the main thread waits.
"""
from __future__ import annotations

import _thread
import ctypes as c
import threading
import time
from typing import Any

from ._library import Owned, RunOptions


class Runner:
    """Calls ckptc_run and ckptc_grad for one chain. An exception of a signal's handler stops a run, and comes out then.

    A thread takes about 0.1 ms. A run is called without one if the last of such a name took less than PATIENCE seconds for
    arrays of as many bytes: then nobody waits for its end.
    """

    PATIENCE = 0.01

    def __init__(self) -> None:
        self._quick: dict[str, int] = {}  # by name of function: the bytes of a call that was quick

    def run(self, name: str, chain: Any, input_: Any, options: RunOptions, size: int) -> Owned:
        begin = time.perf_counter()
        if size <= self._quick.get(name, -1) or threading.current_thread() is not threading.main_thread():
            result = Owned("result_free", name, chain, input_, c.byref(options))
        else:
            result = _run_stoppable(name, chain, input_, options)
        self._quick[name] = size if time.perf_counter() - begin < self.PATIENCE else -1
        return result


def _run_stoppable(name: str, chain: Any, input_: Any, options: RunOptions) -> Owned:
    stop = c.c_int(0)
    options.stop = c.pointer(stop)
    made: list[Owned | BaseException] = []
    waiting = threading.Lock()
    waiting.acquire()

    def compute() -> None:
        try:
            made.append(Owned("result_free", name, chain, input_, c.byref(options)))
        except BaseException as failure:
            made.append(failure)
        waiting.release()

    # A handler may raise after any call. While the library may still use the arrays, nothing leaves this loop.
    begun, interrupt = False, None
    while not made:
        try:
            if not begun:
                begun = True
                try:
                    _thread.start_new_thread(compute, ())
                except RuntimeError:  # there can be no more threads
                    compute()
            waiting.acquire()
        except BaseException as raised:
            interrupt, stop.value = raised, 1
    if interrupt is not None:
        raise interrupt
    result = made[0]
    if isinstance(result, BaseException):
        raise result
    return result
