import { useMutation, useQuery } from "@tanstack/react-query";
import { post } from "../api/client";
import type { TaskFilter } from "../api/queries";
import { Button } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { plural } from "../ui/format";
import { Loaded, ProblemBox } from "../ui/problem";
import { State } from "../ui/state";
import { say } from "../ui/toast";

/** All tasks that fit a filter: counted first, and exactly those of that moment then. */
export function BulkDialog({
  what,
  filter,
  onClose,
}: {
  what: "cancel" | "retry";
  filter: TaskFilter;
  onClose: () => void;
}) {
  const meant = (dryRun: boolean, until: string | null) =>
    post(what === "cancel" ? "/v1/tasks/cancel" : "/v1/tasks/retry", {
      body: {
        dag_name: filter.dag ?? null,
        job_name: filter.job ?? null,
        status: filter.status ?? null,
        until,
        dry_run: dryRun,
      },
    });
  const found = useQuery({
    queryKey: ["bulk", what, filter],
    queryFn: () => meant(true, null),
    refetchOnMount: "always",
  });
  const act = useMutation({
    mutationFn: () => meant(false, found.data?.until ?? null),
    onSuccess: (done) => {
      say(
        `${plural(done.tasks, "task")} ${what === "cancel" ? "canceled" : "will run again"}${done.more ? "; there are more" : ""}.`,
      );
      onClose();
    },
  });
  const verb = what === "cancel" ? "Cancel" : "Retry";
  return (
    <Dialog title={`${verb} all that fit the filters`} onClose={onClose}>
      <Loaded query={found}>
        {(data) => (
          <div className="stack">
            {data.tasks === 0 ? (
              <p>
                None of the tasks that fit can be {what === "cancel" ? "canceled" : "retried"}: only
                what {what === "cancel" ? "has not ended" : "failed or was canceled"} can.
              </p>
            ) : (
              <ul className="list">
                {data.jobs.map((each) => (
                  <li key={`${each.dag_name}.${each.job_name}.${each.status}`} className="row">
                    <State state={each.status} />
                    <span className="mono grow">
                      {each.dag_name}.{each.job_name}
                    </span>
                    {plural(each.tasks, "task")}
                  </li>
                ))}
              </ul>
            )}
            {act.isError && <ProblemBox error={act.error} />}
            <div className="actions">
              <Button onClick={onClose}>Close</Button>
              <Button
                look={what === "cancel" ? "danger" : "main"}
                disabled={act.isPending || data.tasks === 0}
                onClick={() => act.mutate()}
              >
                {verb} {plural(data.tasks, "task")}
              </Button>
            </div>
          </div>
        )}
      </Loaded>
    </Dialog>
  );
}
