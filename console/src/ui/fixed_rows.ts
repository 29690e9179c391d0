// Rows of one height, of which only those that are seen are drawn: a million of them cost as much
// as a hundred. Where they are taller together than a browser can scroll, the way is shortened.

import { useCallback, useEffect, useState, type RefObject } from "react";

// Firefox ends at 17.8 million pixels, Chromium at 33.5.
const TALLEST = 15_000_000;

export interface Seen {
  first: number;
  last: number;
  /** From the top of what is scrolled. */
  topOf: (index: number) => number;
}

export function seenRows(
  count: number,
  row: number,
  scrollTop: number,
  height: number,
  overscan: number,
): Seen {
  const shift = scrollTop * (stretch(count, row, height) - 1);
  const first = Math.floor((scrollTop + shift) / row);
  return {
    first: Math.max(0, first - overscan),
    last: Math.min(count - 1, first + Math.ceil(height / row) + overscan),
    topOf: (index) => index * row - shift,
  };
}

export function tallness(count: number, row: number): number {
  return Math.min(count * row, TALLEST);
}

/** How many pixels of rows a pixel of the scroll bar stands for. */
function stretch(count: number, row: number, height: number): number {
  const way = tallness(count, row) - height;
  return way > 0 ? (count * row - height) / way : 1;
}

export interface FixedRows extends Seen {
  total: number;
  scrollTo: (index: number, align?: "center" | "start") => void;
}

export function useFixedRows(
  scroller: RefObject<HTMLElement | null>,
  count: number,
  row: number,
  overscan: number,
): FixedRows {
  const [place, setPlace] = useState({ top: 0, height: 600 });
  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const look = () => setPlace({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, [scroller]);
  const scrollTo = useCallback(
    (index: number, align: "center" | "start" = "start") => {
      const element = scroller.current;
      if (!element) return;
      const height = element.clientHeight;
      const lead = align === "center" ? (height - row) / 2 : 0;
      element.scrollTop = (index * row - lead) / stretch(count, row, height);
    },
    [scroller, count, row],
  );
  return {
    ...seenRows(count, row, place.top, place.height, overscan),
    total: tallness(count, row),
    scrollTo,
  };
}
