/** A Quartz expression in plain English. Quartz has seconds first, and counts weekdays from 1, which is Sunday. */

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];
const ORDER = ["first", "second", "third", "fourth", "fifth"];

const short = (name: string) => name.slice(0, 3).toUpperCase();
const whole = (text: string) => (/^\d+$/.test(text) ? Number(text) : undefined);
const two = (value: number) => String(value).padStart(2, "0");
const listed = (texts: string[]) =>
  texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`;
const within = (value: number | undefined, least: number, most: number) =>
  value !== undefined && value >= least && value <= most ? value : undefined;

/** One of some names: its number, or the first three letters. */
function named(text: string, names: string[]): string | undefined {
  const number = whole(text);
  return number === undefined ? names.find((each) => short(each) === text) : names[number - 1];
}

/** A list of numbers or names, and ranges of them, in words. */
function some(text: string, one: (part: string) => string | undefined): string | undefined {
  const parts = text.split(",").map((part) => {
    const ends = part.split("-").map(one);
    return ends.length > 2 || ends.includes(undefined) ? undefined : ends.join(" to ");
  });
  return parts.includes(undefined) ? undefined : listed(parts as string[]);
}

/** "*\/5" and "0/5": 5. */
function stepOf(text: string): number | undefined {
  return whole(/^(?:\*|0)\/(\d+)$/.exec(text)?.[1] ?? "") || undefined;
}

const every = (count: number, unit: string) => (count === 1 ? `every ${unit}` : `every ${count} ${unit}s`);

interface Time {
  text: string;
  often: boolean; // more than once a day, in a rhythm
}

function timeOf(second: string, minute: string, hour: string): Time | undefined {
  const s = within(whole(second), 0, 59);
  const step = stepOf(second) ?? (second === "*" ? 1 : undefined);
  if (step !== undefined && minute === "*" && hour === "*") return { text: every(step, "second"), often: true };
  if (s === undefined) return undefined;
  const seconds = s === 0 ? "" : `:${two(s)}`;
  const m = within(whole(minute), 0, 59);
  const minutes = stepOf(minute) ?? (minute === "*" ? 1 : undefined);
  const hours = stepOf(hour) ?? (hour === "*" ? 1 : undefined);
  const [from, to] = (/^(\d+)-(\d+)$/.exec(hour) ?? []).slice(1).map(Number);
  const ranged = within(from, 0, 23) !== undefined && within(to, 0, 23) !== undefined;
  const clock = (h: number | undefined, at: number | undefined) => `${two(h ?? 0)}:${two(at ?? 0)}${seconds}`;
  if (m !== undefined) {
    if (hours !== undefined)
      return { text: `${every(hours, "hour")}${m + s === 0 ? "" : `, at minute ${m}${seconds}`}`, often: true };
    if (ranged) return { text: `every hour from ${clock(from, m)} to ${clock(to, m)}`, often: true };
    const at = hour.split(",").map((each) => within(whole(each), 0, 23));
    return at.includes(undefined) ? undefined : { text: `at ${listed(at.map((h) => clock(h, m)))}`, often: false };
  }
  if (minutes === undefined || s !== 0) return undefined;
  if (hour === "*") return { text: every(minutes, "minute"), often: true };
  return ranged
    ? { text: `${every(minutes, "minute")} from ${two(from ?? 0)}:00 to ${two(to ?? 0)}:59`, often: true }
    : undefined;
}

/** The days; "" if it is every one of them. */
function daysOf(day: string, weekday: string): string | undefined {
  if (/^[?*]$/.test(day)) {
    if (/^[?*]$/.test(weekday)) return "";
    const nth = /^(\w+)#([1-5])$/.exec(weekday);
    const last = /^(\d|[A-Z]{3})L$/.exec(weekday);
    const name = named(nth?.[1] ?? last?.[1] ?? "", DAYS);
    if (nth || last) return name && `on the ${nth ? ORDER[Number(nth[2]) - 1] : "last"} ${name} of the month`;
    const found = some(weekday, (part) => named(part, DAYS));
    return found?.includes(" to ") ? found : found && `on ${found}`;
  }
  if (day === "L") return "on the last day of the month";
  if (day === "LW") return "on the last weekday of the month";
  const found = some(day, (part) => within(whole(part), 1, 31)?.toString());
  return found && `on ${/^\d+$/.test(day) ? "day" : "days"} ${found} of the month`;
}

/** "Every day at 06:00", "Every 15 minutes, on Monday to Friday"; undefined where the expression has no plain words. */
export function inWords(expression: string): string | undefined {
  const fields = expression.trim().toUpperCase().split(/\s+/);
  const [second = "", minute = "", hour = "", day = "", month = "", weekday = "", year = "*"] = fields;
  if (fields.length < 6 || fields.length > 7 || year !== "*") return undefined;
  const time = timeOf(second, minute, hour);
  const days = daysOf(day, weekday);
  const months = month === "*" ? "" : some(month, (part) => named(part, MONTHS));
  if (time === undefined || days === undefined || months === undefined) return undefined;
  const texts = time.often ? [time.text, days] : [days === "" ? `every day ${time.text}` : `${days} ${time.text}`];
  const text = [...texts, months && `in ${months}`].filter(Boolean).join(", ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
