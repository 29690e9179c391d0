// In a worker, so that the page stays usable.

import { layers, type Places } from "./layers";
import type { Edge } from "./model";

export interface Wanted {
  key: string;
  ids: string[];
  edges: Edge[];
}

export interface Placed {
  key: string;
  places: Places;
}

self.onmessage = ({ data }: MessageEvent<Wanted>) => {
  self.postMessage({ key: data.key, places: layers(data.ids, data.edges) } satisfies Placed);
};
