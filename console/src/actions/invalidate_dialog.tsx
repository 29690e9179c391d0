import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { post } from "../api/client";
import type { S } from "../api/types";
import { Button, Field } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { count, plural } from "../ui/format";
import { ProblemBox } from "../ui/problem";
import { say } from "../ui/toast";

/** Rows that are known to be wrong: their producer makes them anew, and what read them follows. */
export function InvalidateDialog({
  dataset,
  start,
  end,
  partitions,
  rows,
  onClose,
}: {
  dataset: S<"DatasetDetail">;
  start: number;
  end: number;
  partitions: number;
  rows: number;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const [reason, setReason] = useState("");
  const send = useMutation({
    mutationFn: () =>
      post("/v1/invalidations", {
        body: {
          dataset: dataset.dataset,
          scope: "row_range",
          start,
          end,
          reason,
          request_id: crypto.randomUUID(),
        },
      }),
    onSuccess: (made) => {
      say(made.note ?? `${made.jobs.join(", ") || "Nobody"} has something to do.`);
      void client.invalidateQueries({ queryKey: ["invalidations"] });
      onClose();
    },
  });
  return (
    <Dialog title={`Invalidate blocks of ${dataset.dataset}`} onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event: FormEvent) => {
          event.preventDefault();
          send.mutate();
        }}
      >
        <dl className="facts">
          <dt>Blocks</dt>
          <dd>
            {count(start)} to {count(end)}
          </dd>
          <dt>Holds now</dt>
          <dd>
            {plural(partitions, "partition")}, {plural(rows, "row")}
          </dd>
          <dt>Made anew by</dt>
          <dd className="mono">{dataset.producer}</dd>
          <dt>Then by</dt>
          <dd>
            {dataset.downstream.length > 0 ? dataset.downstream.join(", ") : "no job reads it"}
          </dd>
        </dl>
        <Field label="Why it is wrong, for those who look into it later">
          <textarea
            required
            rows={2}
            value={reason}
            onChange={(event) => setReason(event.target.value)}
          />
        </Field>
        {send.isError && <ProblemBox error={send.error} />}
        <div className="actions">
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" look="danger" disabled={send.isPending || reason.trim() === ""}>
            {send.isPending ? "Sending…" : "Invalidate"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
