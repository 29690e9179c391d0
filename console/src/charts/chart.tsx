// Bars or a line of numbers, drawn as SVG: enough to see the shape of an answer.

import { useEffect, useRef, useState } from "react";
import { short } from "../ui/format";

export interface Point {
  label: string;
  value: number;
}

const LEFT = 58;
const BOTTOM = 26;
const TOP = 10;
const RIGHT = 12;

export function Chart({
  points,
  kind,
  height = 300,
  label,
}: {
  points: Point[];
  kind: "bars" | "line";
  height?: number;
  label: string;
}) {
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const [over, setOver] = useState<number | null>(null);
  const values = points.map((point) => point.value);
  const low = kind === "bars" ? Math.min(0, ...values) : Math.min(...values);
  const high = kind === "bars" ? Math.max(0, ...values) : Math.max(...values);
  const span = high - low || 1;
  const inner = Math.max(10, width - LEFT - RIGHT);
  const tall = height - TOP - BOTTOM;
  const step = inner / Math.max(1, kind === "bars" ? points.length : points.length - 1);
  const x = (index: number) => LEFT + index * step + (kind === "bars" ? step / 2 : 0);
  const y = (value: number) => TOP + tall - ((value - low) / span) * tall;
  const ticks = niceTicks(low, high);
  const every = Math.max(1, Math.ceil(points.length / Math.max(1, Math.floor(inner / 110))));
  return (
    <div ref={place} className="chart">
      <svg
        width={width}
        height={height}
        role="img"
        aria-label={label}
        onMouseLeave={() => setOver(null)}
        onMouseMove={(event) => {
          const at = event.clientX - event.currentTarget.getBoundingClientRect().left - LEFT;
          const index = kind === "bars" ? Math.floor(at / step) : Math.round(at / step);
          setOver(index >= 0 && index < points.length ? index : null);
        }}
      >
        {ticks.map((tick) => (
          <g key={tick}>
            <line x1={LEFT} x2={width - RIGHT} y1={y(tick)} y2={y(tick)} className="chart-line" />
            <text x={LEFT - 8} y={y(tick) + 4} textAnchor="end">
              {short(tick)}
            </text>
          </g>
        ))}
        {points.map((point, index) =>
          index % every === 0 ? (
            <text key={index} x={x(index)} y={height - 8} textAnchor="middle">
              {point.label.length > 14 ? `${point.label.slice(0, 12)}…` : point.label}
            </text>
          ) : null,
        )}
        {kind === "bars" ? (
          points.map((point, index) => (
            <rect
              key={index}
              className={over === index ? "chart-bar over" : "chart-bar"}
              x={x(index) - Math.max(0.5, step * 0.39)}
              width={Math.max(1, step * 0.78)}
              y={Math.min(y(point.value), y(0))}
              height={Math.max(0.5, Math.abs(y(point.value) - y(0)))}
            />
          ))
        ) : (
          <polyline
            className="chart-path"
            points={points.map((point, index) => `${x(index)},${y(point.value)}`).join(" ")}
          />
        )}
        {over !== null && points[over] && kind === "line" && (
          <circle className="chart-dot" r="3.5" cx={x(over)} cy={y(points[over].value)} />
        )}
      </svg>
      <p className="chart-said" aria-live="off">
        {over !== null && points[over]
          ? `${points[over].label}: ${points[over].value.toLocaleString("en-US")}`
          : " "}
      </p>
    </div>
  );
}

/** A line without axes. */
export function Spark({
  values,
  label,
  width = 120,
  height = 28,
}: {
  values: number[];
  label: string;
  width?: number;
  height?: number;
}) {
  const high = Math.max(...values, 1e-9);
  const low = Math.min(...values, 0);
  const step = width / Math.max(1, values.length - 1);
  const y = (value: number) => height - 3 - ((value - low) / (high - low || 1)) * (height - 6);
  return (
    <svg className="spark" width={width} height={height} role="img" aria-label={label}>
      <polyline
        className="chart-path"
        points={values.map((value, index) => `${index * step},${y(value)}`).join(" ")}
      />
    </svg>
  );
}

export function niceTicks(low: number, high: number, about = 4): number[] {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) ?? power;
  const ticks: number[] = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) {
    ticks.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  }
  return ticks;
}

function useWidth(place: React.RefObject<HTMLDivElement | null>): number {
  const [width, setWidth] = useState(600);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      if (entry) setWidth(entry.contentRect.width);
    });
    if (place.current) observer.observe(place.current);
    return () => observer.disconnect();
  }, [place]);
  return width;
}
