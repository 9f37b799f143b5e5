const LARGE = /\d{16}/; // more digits than a number of JavaScript surely holds
const NUMBER = /-?\d[\d.eE+-]*/g;
const WHOLE = /^-?\d{16,}$/;

/** Reads JSON. A whole number that would be rounded, such as 9007199254740993, becomes a text with its digits. */
export function exactNumbers(text: string): unknown {
  return JSON.parse(LARGE.test(text) ? quoted(text) : text);
}

function quoted(text: string): string {
  const parts: string[] = [];
  let at = 0;
  while (at < text.length) {
    const string = text.indexOf('"', at);
    const between = text.slice(at, string < 0 ? text.length : string);
    parts.push(
      between.replace(NUMBER, (each) => (WHOLE.test(each) && !Number.isSafeInteger(Number(each)) ? `"${each}"` : each)),
    );
    if (string < 0) break;
    at = endOf(text, string);
    parts.push(text.slice(string, at));
  }
  return parts.join("");
}

/** Where the string ends that begins there. A regular expression would need memory for every character of an image. */
function endOf(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text[end - 1 - slashes] === "\\") slashes += 1;
    if (slashes % 2 === 0) return end + 1;
  }
  return text.length;
}
