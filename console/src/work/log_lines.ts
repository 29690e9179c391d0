// A log as the bytes it is kept in: lines are found by their ends, and read when they are looked at.

export interface Line {
  number: number;
  time: string;
  level: string;
  event: string;
  rest: string;
}

const END = 10;

export class LogLines {
  private readonly ends: Uint32Array;
  private readonly decoder = new TextDecoder();

  constructor(readonly bytes: Uint8Array) {
    this.ends = endsOf(bytes);
  }

  get count(): number {
    return this.ends.length;
  }

  line(number: number): Line {
    const from = number === 0 ? 0 : this.ends[number - 1]! + 1;
    return told(number, this.decoder.decode(this.bytes.subarray(from, this.ends[number])));
  }

  /** Numbers of the lines that are as bad as `level` and hold `text`, of those from `from` on. */
  search(level: string, text: string, from: number, to: number): number[] {
    const wanted = text.toLowerCase();
    const found: number[] = [];
    for (let number = from; number < Math.min(to, this.count); number += 1) {
      const line = this.line(number);
      if (isWorth(line.level, level) && (wanted === "" || saidOf(line).includes(wanted)))
        found.push(number);
    }
    return found;
  }
}

/** Empty lines are none. */
function endsOf(bytes: Uint8Array): Uint32Array {
  const found: number[] = [];
  let begin = 0;
  for (let at = bytes.indexOf(END); at >= 0; at = bytes.indexOf(END, begin)) {
    found.push(at);
    begin = at + 1;
  }
  if (begin < bytes.length) found.push(bytes.length);
  return Uint32Array.from(found);
}

function told(number: number, text: string): Line {
  const { event, level, timestamp, ...rest } = parsed(text);
  const word = (value: unknown) => (typeof value === "string" ? value : "");
  return {
    number,
    time: word(timestamp).slice(11, 23),
    level: word(level),
    event: word(event),
    rest: Object.entries(rest)
      .map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`)
      .join(" ")
      .replaceAll("\n", " ⏎ "),
  };
}

function parsed(text: string): Record<string, unknown> {
  try {
    const found: unknown = JSON.parse(text);
    if (typeof found === "object" && found !== null && !Array.isArray(found))
      return found as Record<string, unknown>;
  } catch {
    // A line that somebody else wrote is shown as it is.
  }
  return { event: text };
}

function saidOf(line: Line): string {
  return `${line.level} ${line.event} ${line.rest}`.toLowerCase();
}

export function isWorth(level: string, wanted: string): boolean {
  if (wanted === "") return true;
  const bad = level === "error" || level === "critical";
  return wanted === "error" ? bad : bad || level === "warning";
}
