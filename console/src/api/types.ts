import type { components } from "./schema.gen";

type Schemas = components["schemas"];
export type S<Name extends keyof Schemas> = Schemas[Name];
export type TaskState = S<"TaskStatus">["status"];
export type DatasetState = S<"DatasetEntry">["state"];
