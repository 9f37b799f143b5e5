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

/** "1 node", "3 nodes". */
export const count = (number: number, one: string, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;
