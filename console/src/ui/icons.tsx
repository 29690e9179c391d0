// Drawn for the console: 16 x 16, one stroke.

const PATHS = {
  home: "M2.5 7.5 8 3l5.5 4.5V13a.5.5 0 0 1-.5.5H9.8V9.6H6.2v3.9H3a.5.5 0 0 1-.5-.5z",
  query: "M2.5 4.5 5.5 7.5 2.5 10.5M7.5 11.5h6",
  catalogue: "M3 3.5h10M3 8h10M3 12.5h6",
  graph: "M4 4.5h3.5v3H4zM8.5 9.5H12v3H8.5zM5.7 7.5V11h2.8",
  chains:
    "M6.6 9.4 9.4 6.6M7.2 4.8l1.6-1.6a2.5 2.5 0 0 1 3.6 3.6l-1.6 1.6M8.8 11.2l-1.6 1.6a2.5 2.5 0 0 1-3.6-3.6l1.6-1.6",
  runs: "M2.5 4h6M5 8h7M9 12h4.5",
  backfills: "M13 8a5 5 0 1 1-1.6-3.7M13 2.8v2.5h-2.5",
  deploy: "M8 13V4M4.5 7.2 8 3.5l3.5 3.7",
  operators: "M6 3.5 2.8 8 6 12.5M10 3.5 13.2 8 10 12.5",
  health: "M2 8.5h3l1.5-4 3 8 1.5-4h3",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5l3 3",
  close: "M4 4l8 8M12 4l-8 8",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  sun: "M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM8 1.8v1.4M8 12.8v1.4M1.8 8h1.4M12.8 8h1.4M3.6 3.6l1 1M11.4 11.4l1 1M12.4 3.6l-1 1M4.6 11.4l-1 1",
  moon: "M13 9.3A5.3 5.3 0 1 1 6.7 3a4.2 4.2 0 0 0 6.3 6.3z",
  book: "M8 4.2C6.8 3.3 5 3 2.8 3v9.4c2.2 0 4 .3 5.2 1.2 1.2-.9 3-1.2 5.2-1.2V3C11 3 9.2 3.3 8 4.2zm0 0v9.4",
  copy: "M5.5 5.5V3h7.5v7.5h-2.5M3 5.5h7.5V13H3z",
  play: "M5 3.5v9l7.5-4.5z",
  stop: "M4.5 4.5h7v7h-7z",
  down: "M8 3v8M4.8 8 8 11.2 11.2 8M3 13.2h10",
  chevron: "M6 3.8 10.2 8 6 12.2",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  plus: "M8 3v10M3 8h10",
  keys: "M2.5 4.5h11v7h-11zM5 9.5h6M5 7h.01M7 7h.01M9 7h.01M11 7h.01",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      className="icon"
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
