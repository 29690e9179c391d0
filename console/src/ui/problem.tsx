import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { asProblem, type Problem } from "../api/client";
import { Button, Skeleton } from "./basics";
import { Icon } from "./icons";

/** What went wrong, what would put it right, and the code that documents and logs call it by. */
export function ProblemBox({
  error,
  onRetry,
}: {
  error: unknown;
  onRetry?: (() => void) | undefined;
}) {
  const problem = asProblem(error);
  return (
    <div className="problem" role="alert">
      <div className="problem-text">
        <p>{problem.message}</p>
        {fieldErrors(problem).map((each) => (
          <p key={each} className="mono">
            {each}
          </p>
        ))}
        {problem.hint !== null && <p className="faint">{problem.hint}</p>}
        <p className="problem-code">
          {problem.code}
          {problem.requestId !== null && <> · request {problem.requestId}</>}
        </p>
      </div>
      {onRetry && <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}

function fieldErrors(problem: Problem): string[] {
  const told = problem.facts.errors;
  if (!Array.isArray(told)) return [];
  return told.slice(0, 20).map((each: unknown) => {
    if (typeof each === "string") return each;
    return Object.values((each ?? {}) as Record<string, unknown>)
      .filter((part) => typeof part === "string" || typeof part === "number")
      .join(": ");
  });
}

/** Data, or why there is none, or that it is on its way. Old data stays while new is awaited. */
export function Loaded<T>({
  query,
  children,
  lines,
}: {
  query: UseQueryResult<T>;
  children: (data: T) => ReactNode;
  lines?: number;
}) {
  if (query.data !== undefined) {
    return (
      <>
        {query.isError && <StaleNote onRetry={() => void query.refetch()} />}
        {children(query.data)}
      </>
    );
  }
  if (query.isError) return <ProblemBox error={query.error} onRetry={() => void query.refetch()} />;
  return <Skeleton lines={lines ?? 4} />;
}

function StaleNote({ onRetry }: { onRetry: () => void }) {
  return (
    <p className="stale-note">
      <Icon name="health" size={13} /> This is what was known before; it could not be asked again.{" "}
      <button type="button" className="link" onClick={onRetry}>
        Try again
      </button>
    </p>
  );
}
