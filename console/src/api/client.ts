// Calls to the gateway. An answer that is no success becomes a Problem; a session that is over is
// opened again in a dialog, and the call repeated.

import type { paths } from "./schema.gen";
import { ofThisSession, sessionOver } from "./session";

type Method = "get" | "post" | "delete";
type With<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, { responses: unknown }> ? P : never;
}[keyof paths];
type Success<R> = R extends { responses: { 200: { content: { "application/json": infer T } } } }
  ? T
  : undefined;
export type Answer<P extends keyof paths, M extends Method> = M extends keyof paths[P]
  ? Success<paths[P][M]>
  : never;
type Body<R> = R extends { requestBody?: { content: { "application/json": infer B } } } ? B : never;

export type Params = Record<string, string | number | boolean | null | undefined>;
interface Asked {
  path?: Params;
  query?: Params;
  signal?: AbortSignal | undefined;
}

/** What `application/problem+json` says, or what takes its place when nothing answers. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly hint: string | null = null,
    readonly facts: Record<string, unknown> = {},
    readonly requestId: string | null = null,
  ) {
    super(detail);
  }
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, "internal", error instanceof Error ? error.message : String(error));
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

export function url(path: string, { path: places, query }: Asked = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(places?.[name] ?? "")),
  );
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "") search.set(name, String(value));
  }
  const said = search.toString();
  return said ? `${filled}?${said}` : filled;
}

export async function get<P extends With<"get">>(
  path: P,
  asked?: Asked,
): Promise<Answer<P, "get">> {
  const answer = await call(url(path, asked), { method: "GET", signal: asked?.signal ?? null });
  return (await answer.json()) as Answer<P, "get">;
}

export async function post<P extends With<"post">>(
  path: P,
  asked: Asked & { body?: Body<paths[P] extends { post: infer O } ? O : never> } = {},
): Promise<Answer<P, "post">> {
  const answer = await send("POST", url(path, asked), asked.body, asked.signal);
  return (await answer.json()) as Answer<P, "post">;
}

export async function remove<P extends With<"delete">>(path: P, asked?: Asked): Promise<void> {
  await send("DELETE", url(path, asked));
}

export function send(
  method: "POST" | "DELETE",
  target: string,
  body?: unknown,
  signal?: AbortSignal | undefined,
): Promise<Response> {
  const headers: Record<string, string> = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return call(target, {
    method,
    headers,
    body: body === undefined ? null : JSON.stringify(body),
    signal: signal ?? null,
  });
}

export async function call(target: string, init: RequestInit): Promise<Response> {
  for (;;) {
    const answer = await reach(target, init);
    if (answer.ok) return answer;
    if (answer.status !== 401) throw await problemOf(answer);
    await sessionOver(init.signal ?? null);
  }
}

/** The answer as it is, also one that is no success. */
export async function reach(target: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(target, { ...init, headers: { ...init.headers, ...ofThisSession() } });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new Problem(
      0,
      "unreachable",
      "The instance does not answer.",
      "Is it running? `trace up` starts it, `trace doctor` says what is wrong.",
    );
  }
}

export async function problemOf(answer: Response): Promise<Problem> {
  const said: unknown = await answer.json().catch(() => null);
  const told = isRecord(said) ? said : {};
  return new Problem(
    answer.status,
    text(told.code) ?? `http_${answer.status}`,
    text(told.detail) ?? text(told.title) ?? `The gateway answered ${answer.status}.`,
    text(told.hint),
    isRecord(told.facts) ? told.facts : {},
    answer.headers.get("X-Request-Id"),
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}
