import { expect, test } from "vitest";
import { cellText, grouped, isNumeric, parseExact, shortHex } from "../src/query/exact";

const LARGEST = (2n ** 256n - 1n).toString();

test("an integer that a double cannot hold stays exact, as text", () => {
  const sent = `{"rows":[[9223372036854775807,-9223372036854775808,1,0.1234567890123456789,1e300,"${LARGEST}"]]}`;
  expect(parseExact<{ rows: unknown[][] }>(sent).rows[0]).toEqual([
    "9223372036854775807",
    "-9223372036854775808",
    1,
    0.1234567890123456789,
    1e300,
    LARGEST,
  ]);
});

test("digits within text are left alone, also behind an escaped quote", () => {
  const sent = JSON.stringify({ a: 'say "12345678901234567890" \\', b: ["99999999999999999999"] });
  expect(parseExact(sent)).toEqual(JSON.parse(sent));
});

test("digits are grouped whatever their number", () => {
  expect(grouped(LARGEST)).toHaveLength(LARGEST.length + 25);
  expect(grouped("-1234.5678")).toBe("-1,234.5678");
  expect(grouped("0x12")).toBe("0x12");
});

test("a cell shows its value, and nothing as NULL", () => {
  expect([null, false, 0, "", { a: [1] }].map(cellText)).toEqual([
    "NULL",
    "false",
    "0",
    "",
    '{"a":[1]}',
  ]);
});

test("a hash loses its middle and an address does not", () => {
  const address = `0x${"ab".repeat(20)}`;
  expect(shortHex(address)).toBe(address);
  expect(shortHex(`0x${"ab".repeat(32)}`)).toBe("0xabababababababab…abababab");
});

test("numbers are told from text by their type", () => {
  expect(["BIGINT", "UHUGEINT", "DECIMAL(38,0)", "BIGNUM", "DOUBLE"].every(isNumeric)).toBe(true);
  expect(["VARCHAR", "BLOB", "INTERVAL", "BIGINT[]"].some(isNumeric)).toBe(false);
});
