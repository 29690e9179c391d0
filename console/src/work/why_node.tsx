import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import * as ask from "../api/queries";
import type { S } from "../api/types";
import { Command } from "../ui/basics";
import { ago } from "../ui/format";
import { Loaded } from "../ui/problem";
import { Glyph, toneOf, type Tone } from "../ui/state";

type AnyReason = S<"Reason"> | S<"DatasetReason">;
type Answer = S<"Why"> | S<"DatasetWhy">;

const BAD = [
  "failed",
  "failing",
  "source_down",
  "source_stuck",
  "runtime_off",
  "no_worker",
  "invalid",
  "check_failed",
  "held_by_check",
  "known_wrong",
];
const WAITING = [
  "retry_waits",
  "retrying",
  "paused",
  "held_for_consumer",
  "pressure",
  "behind",
  "waits_for_provider",
  "too_old",
  "silent",
  "workers_full",
  "workers_cannot_poll",
  "source_slots_full",
  "unmade",
];
const FINE = ["completed", "fresh", "idle", "head"];

function toneOfReason(reason: AnyReason): Tone {
  if ("level" in reason) return toneOf(reason.level);
  if (BAD.includes(reason.code)) return "bad";
  if (WAITING.includes(reason.code)) return "warn";
  return FINE.includes(reason.code) ? "good" : "busy";
}

/** What holds a task, a job or a dataset; what is upstream of it opens below. */
export function WhyNode({
  subject,
  root = false,
  above = [],
}: {
  subject: string;
  root?: boolean;
  above?: string[];
}) {
  const why = useQuery(ask.why(subject));
  const [open, setOpen] = useState<string | null>(null);
  const path = [...above, subject];
  return (
    <div className={root ? "why-node root" : "why-node"}>
      <Loaded query={why} lines={2}>
        {(data) => (
          <>
            <p className="wrap">
              <strong>{data.answer}</strong>
            </p>
            <ul className="stack">
              {(data.reasons as AnyReason[])
                .filter((reason) => tells(reason, data.answer))
                .map((reason, index) => (
                  <li
                    key={index}
                    className="row"
                    style={{ alignItems: "baseline", flexWrap: "nowrap" }}
                  >
                    <Glyph tone={toneOfReason(reason)} />
                    <div className="grow">
                      {reason.text !== data.answer && <p className="wrap">{reason.text}</p>}
                      {"at" in reason && reason.steps > 0 && (
                        <p className="faint">
                          at{" "}
                          <Link to="/why/$subject/" params={{ subject: reason.at }}>
                            {reason.at}
                          </Link>
                        </p>
                      )}
                      {reason.cure && <Cure text={reason.cure} />}
                    </div>
                  </li>
                ))}
            </ul>
            <div className="stack">
              {upstream(data)
                .filter((each) => !path.includes(each.of))
                .map((each) => (
                  <div key={each.label}>
                    <button
                      type="button"
                      className="link"
                      aria-expanded={open === each.of}
                      onClick={() => setOpen(open === each.of ? null : each.of)}
                    >
                      {open === each.of ? "▾" : "▸"} {each.label}
                    </button>
                    {open === each.of && <WhyNode subject={each.of} above={path} />}
                  </div>
                ))}
            </div>
          </>
        )}
      </Loaded>
    </div>
  );
}

/** A reason that is the answer itself, with nothing to do about it, is not said twice. */
function tells(reason: AnyReason, answer: string): boolean {
  return reason.text !== answer || Boolean(reason.cure) || ("steps" in reason && reason.steps > 0);
}

function Cure({ text }: { text: string }) {
  return /^trace [\w-]+/.test(text) ? (
    <Command>{text}</Command>
  ) : (
    <p className="soft wrap">{text}</p>
  );
}

function upstream(why: Answer): { of: string; label: string }[] {
  if ("producer" in why) {
    return [{ of: why.producer, label: `made by ${why.producer}` }];
  }
  const inputs = why.inputs.map((input) => ({
    of: input.dataset,
    label: `reads ${input.dataset}${input.age_s === null ? ", of which there was no event yet" : `, newest event ${ago(input.age_s)}`}`,
  }));
  const job = `${why.dag_name}.${why.job_name}`;
  return why.task_id === null ? inputs : [{ of: job, label: `its job, ${job}` }, ...inputs];
}
