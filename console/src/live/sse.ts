// Server-sent events as they come over fetch: unlike an EventSource it tells the status, and hears
// the comments that say the connection is alive.

export interface Sent {
  event: string;
  data: string;
  id: string | null;
}

/** Feed it text as it comes; it calls back for each whole event. */
export class EventParser {
  private rest = "";
  private event = "";
  private data: string[] = [];
  private id: string | null = null;

  constructor(private readonly onEvent: (sent: Sent) => void) {}

  feed(text: string): void {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    for (const line of lines) this.line(line.endsWith("\r") ? line.slice(0, -1) : line);
  }

  private line(line: string): void {
    if (line === "") return this.dispatch();
    if (line.startsWith(":")) return;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.event = value;
    else if (field === "data") this.data.push(value);
    else if (field === "id") this.id = value;
  }

  private dispatch(): void {
    if (this.data.length > 0 || this.event !== "") {
      this.onEvent({ event: this.event || "message", data: this.data.join("\n"), id: this.id });
    }
    this.event = "";
    this.data = [];
    this.id = null;
  }
}
