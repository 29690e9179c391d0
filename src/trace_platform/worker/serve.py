"""The worker process: wake-ups in, attempts out, one heartbeat thread for all of them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from uuid import UUID

import structlog

from trace_platform.domain.errors import TraceError, Unavailable
from trace_platform.drivers.queue import Message, QueueReceiver
from trace_platform.wire.task import Claimed, NotClaimed
from trace_platform.worker.attempt import Attempt
from trace_platform.worker.dispatcher_client import DispatcherClient
from trace_platform.worker.resources import Resources

log = structlog.get_logger()

# How long a received message stays hidden: a little longer than its claim takes.
VISIBILITY_S = 5.0
# How long an idle worker waits for a wake-up before it looks whether it is to stop.
WAIT_S = 0.5
# For operators to notice; they write where nobody reads, so leaving them behind is safe too.
STOP_GRACE_S = 2.0
# A directive, such as cancel, reaches the worker with its next beat.
MAX_BEAT_S = 5.0
TICK_S = 0.25


class Worker:
    def __init__(
        self,
        worker_id: str,
        queue_name: str,
        slots: int,
        queue: QueueReceiver,
        dispatcher: DispatcherClient,
        resources: Resources,
    ) -> None:
        self._worker_id = worker_id
        self._queue_name = queue_name
        self._queue = queue
        self._dispatcher = dispatcher
        self._resources = resources
        self._slots = threading.Semaphore(slots)
        self._stopping = threading.Event()
        self._running: dict[Attempt, threading.Thread] = {}
        self._lock = threading.Lock()

    def run(self, on_ready: Callable[[], None]) -> None:
        """Poll until SIGTERM or SIGINT, then stop the attempts that still run."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stopping.set())
        threading.Thread(target=self._heartbeats, name="heartbeats", daemon=True).start()
        on_ready()
        log.info("worker_ready", worker=self._worker_id, queue=self._queue_name)
        self._poll()
        self._drain()

    def _poll(self) -> None:
        while not self._stopping.is_set():
            if not self._slots.acquire(timeout=WAIT_S):
                continue
            started = False
            try:
                messages = self._queue.receive(self._queue_name, 1, VISIBILITY_S, WAIT_S)
                started = bool(messages) and self._start(messages[0])
            except Unavailable as error:
                log.warning("poll_waits", reason=error.message)
                self._stopping.wait(WAIT_S)
            if not started:
                self._slots.release()

    def _start(self, message: Message) -> bool:
        """Whether an attempt runs now. The message is only a hint: it is done with either way."""
        answer = self._claim(message)
        if isinstance(answer, Claimed):
            self._launch(answer)
        try:
            self._queue.ack([message.receipt])
        except Unavailable as error:
            # It comes back, and its claim is refused.
            log.warning("ack_lost", reason=error.message)
        return isinstance(answer, Claimed)

    def _claim(self, message: Message) -> Claimed | NotClaimed | None:
        """None for what is no wake-up of ours, and for a claim that the dispatcher refuses."""
        try:
            task_id = UUID(str(message.body["task_id"]))
            return self._dispatcher.claim(task_id, self._worker_id)
        except Unavailable:
            raise  # the message comes back
        except (TraceError, ValueError, TypeError, LookupError) as error:
            log.error("wake_up_dropped", reason=str(error), message=message.body)
            return None

    def _launch(self, claimed: Claimed) -> None:
        attempt = Attempt(claimed, self._dispatcher, self._resources)
        thread = threading.Thread(
            target=self._finish, args=(attempt,), name=attempt.tag, daemon=True
        )
        with self._lock:
            self._running[attempt] = thread
        thread.start()

    def _finish(self, attempt: Attempt) -> None:
        try:
            attempt.run()
        finally:
            with self._lock:
                del self._running[attempt]
            self._slots.release()

    def _heartbeats(self) -> None:
        """Three beats per lease, so that one lost beat costs nothing."""
        next_beat: dict[Attempt, float] = {}
        while True:
            time.sleep(TICK_S)
            attempts = self._attempts()
            next_beat = {attempt: next_beat.get(attempt, 0.0) for attempt in attempts}
            for attempt in attempts:
                attempt.stop_when_late()
                if time.monotonic() >= next_beat[attempt]:
                    attempt.beat()
                    every_s = attempt.claimed.task.heartbeat_timeout_seconds / 3
                    next_beat[attempt] = time.monotonic() + min(every_s, MAX_BEAT_S)

    def _attempts(self) -> list[Attempt]:
        with self._lock:
            return list(self._running)

    def _drain(self) -> None:
        """Hand the work back at once, so that it can go on elsewhere."""
        with self._lock:
            running = dict(self._running)
        log.info("worker_stopping", running=len(running))
        for attempt in running:
            attempt.hand_back()
        deadline = time.monotonic() + STOP_GRACE_S
        for thread in running.values():
            thread.join(max(0.0, deadline - time.monotonic()))
