// JSON whose integers stay exact: what a double cannot hold becomes text before it is parsed.

// Strings are matched first, so that digits in them are left alone.
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

export function parseExact<T>(text: string): T {
  return JSON.parse(text.replace(TOKEN, (token) => (isBeyond(token) ? `"${token}"` : token))) as T;
}

function isBeyond(token: string): boolean {
  if (token.length < 16 || token.startsWith('"') || /[.eE]/.test(token)) return false;
  return !Number.isSafeInteger(Number(token));
}

/** Digits in groups of three, of numbers of any length. */
export function grouped(digits: string): string {
  const [, sign = "", whole = "", rest = ""] = /^(-?)(\d+)(\.\d+)?$/.exec(digits) ?? [];
  if (whole === "") return digits;
  return sign + whole.replace(/\B(?=(\d{3})+$)/g, ",") + rest;
}

export function cellText(value: unknown): string {
  if (value === null || value === undefined) return "NULL";
  if (typeof value === "string") return value;
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

export const ADDRESS = /^0x[0-9a-f]{40}$/i;
export const WORD = /^0x[0-9a-f]{64}$/i;

/** An address in whole, a longer word without its middle. */
export function shortHex(hex: string): string {
  return hex.length > 46 ? `${hex.slice(0, 18)}…${hex.slice(-8)}` : hex;
}

const NUMERIC = /^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|U?INTEGER|FLOAT|DOUBLE|DECIMAL.*|BIGNUM)$/;

export function isNumeric(type: string): boolean {
  return NUMERIC.test(type);
}
