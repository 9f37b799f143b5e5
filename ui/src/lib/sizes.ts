const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** "1.4 GiB". */
export function bytes(count: number): string {
  let at = 0;
  let left = count;
  while (left >= 1024 && at < UNITS.length - 1) {
    left /= 1024;
    at += 1;
  }
  return `${at === 0 ? left : left.toFixed(left < 10 ? 1 : 0)} ${UNITS[at]}`;
}

// Made once: that takes longer than all else that is done for a row of a list.
const WHOLE = new Intl.NumberFormat();

/** "10,000", as the reader's language writes it. */
export const figure = (number: number) => WHOLE.format(number);

/** "1 node", "3,000 nodes". */
export const count = (number: number, one: string, many = `${one}s`) =>
  `${figure(number)} ${number === 1 ? one : many}`;
