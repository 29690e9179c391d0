"""The worker process: wake-ups in, attempts out, one heartbeat thread for all of them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from trace_platform.domain.errors import OperatorCrashed, TraceError, Unavailable, WorkerStopped
from trace_platform.domain.worker_identity import WorkerIdentity
from trace_platform.drivers.queue import Message, QueueReceiver
from trace_platform.wire.task import Claimed, HeartbeatBatchRequest
from trace_platform.worker.attempt import Attempt
from trace_platform.worker.attempt_threads import AttemptThreads
from trace_platform.worker.dispatcher_client import DispatcherClient
from trace_platform.worker.reports import Reports
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
# How often logs are saved and progress is read.
LOOK_EVERY_S = 1.0
# A claim is a lease already: an attempt that ends at once needs no beat.
FIRST_BEAT_S = 0.2
# How long a worker that is nearly full waits for more room before it asks for tasks.
GATHER_S = 0.005
# A claim with all payloads of a very wide worker would be a large answer.
MAX_CLAIM = 100


@dataclass(slots=True)
class Line:
    """Slots of one kind, what has them, and where their wake-ups come from. Runs of sources have no
    end: they have slots of their own, so that they never take all from tasks that end."""

    slots: int
    queue: QueueReceiver
    queue_name: str
    is_sources: bool
    running: set[Attempt] = field(default_factory=set)
    # When it was last looked at, or needed no look.
    polled_at: float = field(default_factory=time.monotonic)

    @property
    def room(self) -> int:
        return self.slots - len(self.running)


class Worker:
    def __init__(
        self,
        identity: WorkerIdentity,
        runtime: str,
        tasks: Line,
        sources: Line,
        dispatcher: DispatcherClient,
        resources: Resources,
    ) -> None:
        self._identity = identity
        self._worker_id = str(identity)
        self._runtime = runtime
        self._tasks = tasks
        self._sources = sources
        self._dispatcher = dispatcher
        self._resources = resources
        self._stopping = threading.Event()
        self._defect: BaseException | None = None
        self._ended = threading.Event()
        self._threads = AttemptThreads(self._run)
        self._changed = threading.Condition()
        self._ends = Reports(dispatcher.complete, self._settled, "ends")
        self._commits = Reports(dispatcher.complete, self._settled, "commits")

    def run(self, on_ready: Callable[[], None]) -> None:
        """Poll until SIGTERM or SIGINT, then stop the attempts that still run."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stopping.set())
        self._watch()
        on_ready()
        log.info("worker_ready", worker=self._worker_id, runtime=self._runtime)
        self._work()
        self._drain()

    def _watch(self) -> None:
        for name, work in (("heartbeats", self._heartbeats), ("looks", self._look_at_attempts)):
            threading.Thread(target=work, name=name, daemon=True).start()

    def _work(self) -> None:
        """Until it is to stop."""
        self._patiently(self._take_over)
        sources = threading.Thread(target=self._poll_sources, daemon=True)
        sources.start()
        self._poll(self._tasks)
        sources.join()
        if self._defect is not None:
            raise self._defect

    def _take_over(self) -> bool:
        """What this worker ran before it was killed has nobody any more: another attempt need not
        wait for those leases to run out."""
        given_up = self._dispatcher.take_over(self._identity)
        if given_up:
            log.warning("attempts_left_behind", worker=self._worker_id, given_up=given_up)
        return True

    def _poll_sources(self) -> None:
        """What nobody expected ends the whole worker, as it does where tasks are polled: its
        supervisor starts another one."""
        try:
            self._poll(self._sources)
        except BaseException as error:
            self._defect = error
            self._stopping.set()

    def _poll(self, line: Line) -> None:
        if line.slots:
            self._patiently(lambda: self._take(line, self._room(line)))

    def _patiently(self, work: Callable[[], bool]) -> None:
        """Again and again until it says that it is done, or the worker is to stop."""
        while not self._stopping.is_set():
            try:
                if work():
                    return
            except Unavailable as error:
                log.warning("poll_waits", reason=error.message)
                self._stopping.wait(WAIT_S)
            except TraceError as error:
                log.error("claim_refused", code=error.code, reason=error.message)
                self._stopping.wait(WAIT_S)

    def _room(self, line: Line) -> int:
        """How many attempts more there is room for; waits a little while there is none."""
        with self._changed:
            if self._changed.wait_for(lambda: line.room > 0, WAIT_S):
                # Short tasks end in swarms: a moment later there is room for several of them.
                self._changed.wait_for(lambda: len(line.running) <= line.slots // 2, GATHER_S)
            return line.room

    def _take(self, line: Line, room: int) -> bool:
        """As many tasks as there are wake-ups. A wake-up is a hint and done with either way: which
        tasks are due is the Dispatcher's to say. Never done."""
        if room > 0:
            limit = min(room, MAX_CLAIM)
            wake_ups = line.queue.receive(line.queue_name, limit, VISIBILITY_S, WAIT_S)
            if wake_ups:
                self._claim(line, wake_ups)
        line.polled_at = time.monotonic()
        return False

    def _claim(self, line: Line, wake_ups: list[Message]) -> None:
        for claimed in self._dispatcher.claim(
            self._runtime, self._worker_id, len(wake_ups), sources=line.is_sources
        ):
            self._launch(line, claimed)
        try:
            line.queue.ack([message.receipt for message in wake_ups])
        except Unavailable as error:
            # They come back, and find nothing to do.
            log.warning("ack_lost", reason=error.message)

    def _launch(self, line: Line, claimed: Claimed) -> None:
        attempt = Attempt(claimed, self._resources, self._dispatcher.emit, self._dispatcher.state)
        with self._changed:
            line.running.add(attempt)
        self._threads.launch(attempt)

    def _run(self, attempt: Attempt) -> None:
        try:
            report = attempt.run()
        except BaseException as error:
            log.exception("attempt_broke", task=attempt.tag)
            report = attempt.failed(OperatorCrashed(type(error).__name__))
        # Commits wait for the object store: the others need not wait with them.
        (self._commits if report.outputs else self._ends).hand_in(attempt, report)

    def _settled(self, attempts: list[Attempt]) -> None:
        with self._changed:
            for line in (self._tasks, self._sources):
                line.running.difference_update(attempts)
            self._changed.notify_all()

    def _heartbeats(self) -> None:
        """Three beats per lease, so that one lost beat costs nothing; all in one call."""
        due_at: dict[Attempt, float] = {}
        say_so_at = 0.0
        while not self._ended.wait(TICK_S):
            attempts = self._attempts()
            for attempt in attempts:
                attempt.stop_when_late()
            now = time.monotonic()
            due_at = {attempt: due_at.get(attempt, now + FIRST_BEAT_S) for attempt in attempts}
            due = [attempt for attempt in attempts if due_at[attempt] <= now]
            if due or now >= say_so_at:
                self._beat(due)
                say_so_at = now + MAX_BEAT_S
                due_at |= {attempt: now + attempt.beat_every_s(MAX_BEAT_S) for attempt in due}

    def _look_at_attempts(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            for attempt in self._attempts():
                try:
                    attempt.look()
                except Exception:
                    log.exception("look_failed", task=attempt.tag)

    def _beat(self, attempts: list[Attempt]) -> None:
        try:
            answers = self._dispatcher.heartbeats(
                HeartbeatBatchRequest(
                    worker_id=self._worker_id,
                    runtime=self._runtime,
                    slots=self._tasks.slots,
                    source_slots=self._sources.slots,
                    polled_s=self._polled_s(),
                    beats=[attempt.beat() for attempt in attempts],
                )
            )
        except TraceError as error:
            log.warning("heartbeat_waits", reason=error.message)
            return
        except Exception:
            # A defect here must not cost every attempt its lease.
            log.exception("heartbeat_failed")
            return
        for attempt, answer in zip(attempts, answers, strict=True):
            attempt.heard(answer)

    def _polled_s(self) -> float:
        now = time.monotonic()
        return max(now - line.polled_at for line in (self._tasks, self._sources) if line.slots)

    def _attempts(self) -> list[Attempt]:
        with self._changed:
            return [*self._tasks.running, *self._sources.running]

    def _drain(self) -> None:
        """Hand the work back at once, so that it can go on elsewhere. Sources have a moment to
        finish what they have begun."""
        attempts = self._attempts()
        log.info("worker_stopping", running=len(attempts))
        sources = [attempt for attempt in attempts if attempt in self._sources.running]
        for attempt in sources:
            attempt.drain(WorkerStopped("the worker was stopped"))
        self._hand_back([a for a in attempts if not a.has_ended and a not in sources])
        with self._changed:
            self._changed.wait_for(lambda: not self._sources.running, STOP_GRACE_S)
        self._hand_back([attempt for attempt in sources if not attempt.has_ended])
        with self._changed:
            # What has ended is still to be reported.
            self._changed.wait_for(
                lambda: not (self._tasks.running or self._sources.running), STOP_GRACE_S
            )
        self._ends.stop()
        self._commits.stop()
        self._ended.set()

    def _hand_back(self, attempts: list[Attempt]) -> None:
        if not attempts:
            return
        try:
            self._dispatcher.complete([attempt.hand_back() for attempt in attempts])
            for attempt in attempts:
                attempt.is_lost = True
        except TraceError as error:
            # The dispatcher is away: then their leases run out.
            log.info("not_handed_back", code=error.code)
