"""The error tree. Each class names one situation and has a stable `code`.

TraceError
├── BadInput                     what the caller sent cannot be right
│   ├── InvalidDag               the YAML has errors, every one listed with its line
│   ├── InvalidManifest          a staged output does not hold what it promises
│   ├── InvalidPrefix            an object prefix that is not canonical
│   ├── InvalidQuery             SQL that is refused or does not run
│   │   └── QueryTooLarge        it ran into a limit of time, memory or size
│   ├── InvalidAbi               an ABI that cannot be read: its line and column
│   ├── InvalidConfig            an operator's or the platform's configuration
│   ├── UnsupportedType          a column of a type that files, or Spark, do not have
│   ├── CorruptFile              a file is not what was written
│   │   └── MissingFile
│   ├── RangeIncomplete          blocks of a range are missing, or do not link
│   ├── WrongChain               the node serves another chain than the job asks for
│   ├── EndpointRefused          an HTTP endpoint says no, or more than is taken
│   └── MalformedBlock           the node's answer is not a block
├── NotFound
│   └── UnknownDataset           no dataset, or no generation of it, has that name
├── Unauthenticated
├── Forbidden
├── Conflict                     the request is right, the state does not allow it
│   ├── StaleFence               another attempt owns the task now
│   ├── CommitOvertaken          part of the range is newer than what this attempt read
│   ├── IncompleteOutput         what was to be made anew was not
│   ├── IncompatibleSchema       columns that the generation cannot have, or the DAG declares others
│   ├── JobOnHold                the job is paused, or a consumer of it is behind
│   ├── DeployInProgress         the DAG has a deploy that has not ended
│   ├── StalePlan                what was planned is not what a deploy would do by now
│   ├── DatasetInUse             data that somebody reads or makes, or a name that others read
│   ├── AbiInUse                 an ABI that a job decodes by
│   ├── GenerationPurged         its data was deleted
│   ├── PastForgotten            a moment whose files gave way and were deleted
│   └── PartitionOverlap         a partition that crosses the border of a committed one
├── TooManyQueries               as many as may run or wait do so; trying again helps
├── TooManyRequests              one caller asks more than the gateway passes on
├── QueryCanceled                somebody stopped it
├── TaskCanceled                 the attempt was told to stop
├── TaskTimedOut                 the attempt ran longer than its job allows
├── CheckFailed                  what was written is not what a blocking check wants
├── HeldByCheck                  a check that names the job keeps what it would read from it
├── TaskFailed                   a task that was waited for failed for good
├── Unavailable                  trying again may help
│   ├── RpcUnreachable           no answer, or no useful one, from the node
│   │   ├── ProvidersDisagree    nodes contradict each other
│   │   └── NodeContradictsItself  an answer of one node is not what another one of it promises
│   ├── EndpointUnreachable      no answer, or no useful one, from an HTTP endpoint
│   ├── DispatcherUnreachable
│   ├── SparkUnreachable         the cluster, or its master, does not answer
│   ├── DiskFull
│   ├── RangeNotReady            not all of a range is there to be read yet
│   ├── InvokeFailed             a function did not accept its task
│   └── WorkerStopped            the worker ended before the attempt did
├── OutputUnwritable             the command's own standard output: closed, or full
├── NotConfirmed                 a command that asks first has neither a terminal nor --yes
├── OperatorCrashed              a defect in an operator
├── InternalError                a defect in a service
└── SetupError                   this machine is not ready (ports, Java, Postgres, rights)
    └── PortInUse
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, ClassVar

# Set in processes whose errors leave as the text of a traceback alone: Spark's Python workers.
NOTES_VARIABLE = "TRACE_ERROR_NOTES"
_writes_notes = NOTES_VARIABLE in os.environ
_NOTE = re.compile(r"^[\s|]*trace_error: (\{.*\})\s*$", re.MULTILINE)


class TraceError(Exception):
    """Something Trace can name. `hint` says what would put it right."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    # Something that the work needs is away: waiting helps, and the work is not to blame.
    outage: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = facts
        if _writes_notes:
            # A traceback ends with the error's notes, whoever writes it.
            self.add_note(note_of(self))

    @property
    def is_outage(self) -> bool:
        """Of all errors of a kind, or, with `outage=True` among the facts, of this one."""
        return self.outage or self.facts.get("outage") is True

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel from Spark's Python workers to the driver by pickle.
        return _rebuild, (type(self), self.message, self.hint, self.facts)


def _rebuild(
    kind: type[TraceError], message: str, hint: str | None, facts: dict[str, object]
) -> TraceError:
    return kind(message, hint=hint, **facts)


class BadInput(TraceError):
    code = "bad_input"


class InvalidDag(BadInput):
    code = "invalid_dag"


class InvalidManifest(BadInput):
    code = "invalid_manifest"


class InvalidPrefix(BadInput):
    code = "invalid_prefix"


class InvalidQuery(BadInput):
    code = "invalid_query"


class QueryTooLarge(InvalidQuery):
    code = "query_too_large"


class InvalidAbi(BadInput):
    code = "invalid_abi"


class InvalidConfig(BadInput):
    code = "invalid_config"


class UnsupportedType(BadInput):
    code = "unsupported_type"


class CorruptFile(BadInput):
    code = "corrupt_file"


class MissingFile(CorruptFile):
    code = "missing_file"
    # It may have been replaced after the claim: another attempt is told what there is by then.
    retryable = True


class RangeIncomplete(BadInput):
    code = "range_incomplete"


class WrongChain(BadInput):
    code = "wrong_chain"


class EndpointRefused(BadInput):
    code = "endpoint_refused"


class MalformedBlock(BadInput):
    code = "malformed_block"
    # Another node, or the same one a moment later, often answers right.
    retryable = True


class NotFound(TraceError):
    code = "not_found"


class UnknownDataset(NotFound):
    code = "unknown_dataset"


class Unauthenticated(TraceError):
    code = "unauthenticated"


class Forbidden(TraceError):
    code = "forbidden"


class Conflict(TraceError):
    code = "conflict"


class StaleFence(Conflict):
    code = "stale_fence"


class CommitOvertaken(Conflict):
    code = "commit_overtaken"
    retryable = True


class IncompleteOutput(Conflict):
    code = "incomplete_output"


class IncompatibleSchema(Conflict):
    code = "incompatible_schema"


class JobOnHold(Conflict):
    code = "job_on_hold"


class DeployInProgress(Conflict):
    code = "deploy_in_progress"


class StalePlan(Conflict):
    code = "stale_plan"


class DatasetInUse(Conflict):
    code = "dataset_in_use"


class AbiInUse(Conflict):
    code = "abi_in_use"


class GenerationPurged(Conflict):
    code = "generation_purged"


class PastForgotten(Conflict):
    """A moment cannot be read: files of then were deleted because others took their place."""

    code = "past_forgotten"


class PartitionOverlap(Conflict):
    code = "partition_overlap"


class TooManyQueries(TraceError):
    """`retry_after_s` among its facts says when."""

    code = "too_many_queries"
    retryable = True


class TooManyRequests(TraceError):
    """`retry_after_s` among its facts says when."""

    code = "too_many_requests"
    retryable = True


class QueryCanceled(TraceError):
    code = "query_canceled"


class TaskCanceled(TraceError):
    code = "task_canceled"


class TaskTimedOut(TraceError):
    code = "task_timed_out"
    retryable = True


class CheckFailed(TraceError):
    code = "check_failed"


class HeldByCheck(TraceError):
    code = "held_by_check"
    retryable = True


class TaskFailed(TraceError):
    code = "task_failed"


class Unavailable(TraceError):
    code = "unavailable"
    retryable = True


class RpcUnreachable(Unavailable):
    code = "rpc_unreachable"


class ProvidersDisagree(RpcUnreachable):
    code = "providers_disagree"


class NodeContradictsItself(RpcUnreachable):
    code = "node_contradicts_itself"


class EndpointUnreachable(Unavailable):
    code = "endpoint_unreachable"


class DispatcherUnreachable(Unavailable):
    code = "dispatcher_unreachable"
    outage = True


class SparkUnreachable(Unavailable):
    code = "spark_unreachable"
    outage = True


class DiskFull(Unavailable):
    code = "disk_full"
    outage = True


class RangeNotReady(Unavailable):
    code = "range_not_ready"


class InvokeFailed(Unavailable):
    code = "invoke_failed"


class WorkerStopped(Unavailable):
    code = "worker_stopped"


class OutputUnwritable(TraceError):
    code = "output_unwritable"


class NotConfirmed(TraceError):
    code = "not_confirmed"


class OperatorCrashed(TraceError):
    code = "operator_crashed"
    retryable = True


class InternalError(TraceError):
    code = "internal_error"
    retryable = True


class SetupError(TraceError):
    code = "setup"


class PortInUse(SetupError):
    code = "port_in_use"


def subclasses(kind: type[TraceError] = TraceError) -> dict[str, type[TraceError]]:
    """Every error class by its code, so that a client can raise what a server named. One without a
    code of its own is a finer name within one process, and stands for no other there."""
    found = {kind.code: kind} if "code" in vars(kind) else {}
    for child in kind.__subclasses__():
        found |= subclasses(child)
    return found


def note_of(error: TraceError) -> str:
    """All that is known of an error, as one line that a traceback can hold."""
    told = {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "retryable": error.retryable,
        "facts": error.facts,
    }
    return f"trace_error: {json.dumps(told, default=str)}"


def noted_in(text: str) -> TraceError | None:
    """The last error whose note stands in a traceback: of a chain of errors, the one that was
    raised last."""
    for note in reversed(_NOTE.findall(text)):
        try:
            told = json.loads(note)
            return _told(**told)
        except (ValueError, TypeError):  # somebody else's line that looks like a note
            continue
    return None


def _told(
    code: str, message: str, hint: str | None, retryable: bool, facts: dict[str, Any]
) -> TraceError:
    kind = subclasses().get(code)
    if kind is None or kind.retryable != retryable:
        # A class of an operator's own, which this process has not imported.
        kind = type("NotedError", (TraceError,), {"code": code, "retryable": retryable})
    return kind(message, hint=hint, **facts)
