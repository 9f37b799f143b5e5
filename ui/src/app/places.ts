import type { IconName } from "../kit/icons";

/** Something that the palette leads to, or does. */
export interface Place {
  id: string;
  name: string;
  icon: IconName;
  go: () => unknown;
}

const fits = ({ name, id }: Place, wanted: string[]) => {
  const known = `${name} ${id}`.toLowerCase();
  return wanted.every((each) => known.includes(each));
};

/** The first of the places that have each word of the text in their name or id. No more are made than are looked at. */
export function matching(places: Iterable<Place>, text: string, most: number): Place[] {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found: Place[] = [];
  for (const each of places) {
    if (found.length >= most) break;
    if (fits(each, wanted)) found.push(each);
  }
  return found;
}

/** The next or the previous of some, round and round. */
export const step = (at: number, by: number, count: number) => (count === 0 ? 0 : (at + by + count) % count);
