// What a task was woken by, in few words.

import type { S } from "../api/types";
import { count } from "../ui/format";

export interface Input {
  name: string;
  uuid: string;
  version: string;
  scope: string;
  trigger: boolean;
}

export function inputsOf(task: S<"TaskStatus">, names: Map<string, string>): Input[] {
  return task.inputs.map((input) => {
    const uuid = text(input.dataset_uuid);
    return {
      name: names.get(uuid) ?? uuid,
      uuid,
      version: text(input.dataset_version),
      scope:
        text(input.partition_key) ||
        (typeof input.cursor === "number" ? count(input.cursor) : "all of it"),
      trigger: input.trigger !== false,
    };
  });
}

/** The range, or how many there are. */
export function scopeOf(task: S<"TaskStatus">): string {
  const woken = inputsOf(task, new Map()).filter((input) => input.trigger);
  const scopes = [...new Set(woken.map((input) => input.scope))];
  if (scopes.length <= 1) return scopes[0] ?? "";
  return `${scopes[0]} and ${scopes.length - 1} more`;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
