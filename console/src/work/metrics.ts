// Prometheus' text, as far as small charts need it.

export interface Sample {
  name: string;
  labels: string;
  value: number;
}

const LINE = /^([a-zA-Z_:][\w:]*)(\{.*\})?\s+(\S+)$/;

export function parseMetrics(text: string): Sample[] {
  return text.split("\n").flatMap((line) => {
    const found = line.startsWith("#") ? null : LINE.exec(line);
    if (!found) return [];
    const value = Number(found[3]);
    return Number.isFinite(value) ? [{ name: found[1]!, labels: found[2] ?? "", value }] : [];
  });
}

/** All series of one name together, those whose labels hold `labelled` alone if it is given. */
export function total(samples: Sample[], name: string, labelled = ""): number {
  return samples
    .filter((sample) => sample.name === name && sample.labels.includes(labelled))
    .reduce((sum, sample) => sum + sample.value, 0);
}

/** What a counter grew by per second, from one sample to the next; it begins again with its process. */
export function rates(values: number[], everyS: number): number[] {
  return values.slice(1).map((value, index) => Math.max(0, value - (values[index] ?? 0)) / everyS);
}
