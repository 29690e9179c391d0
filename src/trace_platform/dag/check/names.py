"""The names of a DAG: its jobs, their outputs and the datasets that it publishes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trace_platform.dag.model.dag import Dag, DatasetRef, Job, JobOutputRef
from trace_platform.dag.read.dag_yaml import Path, Place
from trace_platform.wire.suggest import instead

Problem = tuple[Path, str]

MAX_COMPARISONS = 5_000


class Names:
    """Who is who in a DAG. Of two jobs with the same name the first counts."""

    def __init__(self, dag: Dag, root: Place) -> None:
        self.dag = dag
        self.root = root
        self.jobs: dict[str, Job] = {}
        for job in dag.jobs:
            if job.name:
                self.jobs.setdefault(job.name, job)
        # A job whose name is wrong may well be the one that others name.
        self._nameless = any(not job.name for job in dag.jobs)
        # Comparing all names with all others would take long in a large file.
        self._comparisons = MAX_COMPARISONS

    def instead(self, given: str, known: Sequence[str]) -> str:
        """What was meant, or what there is."""
        self._comparisons -= len(known)
        return instead(given, known) if self._comparisons >= 0 else ""

    def dangling(self, ref: JobOutputRef, path: Path) -> Iterator[Problem]:
        job = self.jobs.get(ref.job)
        if job is None and not self._nameless:
            yield (*path, "job"), f"there is no job '{ref.job}'{self._job_instead(ref.job)}"
        elif job and job.outputs and job.output_index(ref.output) is None:
            yield (*path, "output"), self._no_output(job, ref.output)

    def producers(self, source: JobOutputRef | DatasetRef) -> list[JobOutputRef]:
        """The outputs of this DAG behind what is read, also when it is named as a dataset."""
        if isinstance(source, JobOutputRef):
            return [source]
        published = self.dag.publish.get(source.dataset)
        return list(published.sources) if published else []

    def read(self, source: JobOutputRef | DatasetRef) -> object:
        """The same for the same output, however it is named."""
        producers = self.producers(source)
        if len(producers) == 1:
            return self.output(producers[0])
        return source.dataset if isinstance(source, DatasetRef) else None

    def output(self, ref: JobOutputRef) -> tuple[str, int | str]:
        """The same for the same output, by name or by index."""
        index = self.jobs[ref.job].output_index(ref.output) if ref.job in self.jobs else None
        return ref.job, ref.output if index is None else index

    def _no_output(self, job: Job, output: int | str) -> str:
        said = f"job '{job.name}' has no output {output!r}"
        if isinstance(output, int):
            has = (
                "it has 0 only" if len(job.outputs) == 1 else f"it has 0 to {len(job.outputs) - 1}"
            )
            return f"{said}; {has}: {', '.join(job.outputs)}"
        return said + (self.instead(output, job.outputs)).replace("known here", "it has")

    def _job_instead(self, given: str) -> str:
        if given in self.dag.publish:
            return f"; it is a published dataset: write from: {{ dataset: {given} }}"
        maker = next((job.name for job in self.jobs.values() if given in job.outputs), None)
        if maker is not None:
            return f"; it is an output: write from: {{ job: {maker}, output: {given} }}"
        return self.instead(given, list(self.jobs)).replace("known here", "jobs here")
