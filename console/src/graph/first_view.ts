// Where one looks first: at everything if that can be read, else at what is selected, else at where
// the data comes in.

import type { Placed } from "./layout.worker";
import { HEIGHT, WIDTH } from "./size";

// Smaller than this the names cannot be read.
const READABLE = 0.72;
const MARGIN = 24;

export interface View {
  x: number;
  y: number;
  zoom: number;
}

export function firstView(
  places: Placed["places"],
  selected: string | null,
  width: number,
  height: number,
): View {
  const all = Object.values(places);
  const left = least(all.map(([x]) => x));
  const top = least(all.map(([, y]) => y));
  const across = -least(all.map(([x]) => -x)) + WIDTH - left;
  const down = -least(all.map(([, y]) => -y)) + HEIGHT - top;
  const fits = Math.min((width - 2 * MARGIN) / across, (height - 2 * MARGIN) / down);
  const zoom = Math.min(1, Math.max(READABLE, fits));
  const chosen = selected === null ? undefined : places[selected];
  const [x, y] = chosen ?? first(all);
  return {
    zoom,
    x: axis(width, left, across, zoom, x + WIDTH / 2),
    y: axis(height, top, down, zoom, y + HEIGHT / 2),
  };
}

/** All of it in the middle where there is room; else the wanted place, and no empty margin. */
function axis(room: number, from: number, size: number, zoom: number, wanted: number): number {
  if (size * zoom + 2 * MARGIN <= room) return (room - size * zoom) / 2 - from * zoom;
  const begin = MARGIN - from * zoom;
  const end = room - MARGIN - (from + size) * zoom;
  return Math.min(begin, Math.max(end, room / 2 - wanted * zoom));
}

/** Of what stands furthest left, the one in the middle. */
function first(all: [number, number][]): [number, number] {
  const left = least(all.map(([x]) => x));
  const column = all.filter(([x]) => x < left + WIDTH / 2).sort((a, b) => a[1] - b[1]);
  return column[column.length >> 1] ?? [0, 0];
}

function least(values: number[]): number {
  return values.reduce((low, value) => Math.min(low, value), Infinity);
}
