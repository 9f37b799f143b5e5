/** As much of a browser's storage as drafts use, for tests. */
export class Kept {
  readonly items = new Map<string, string>();
  full = false;

  get length() {
    return this.items.size;
  }

  key = (at: number) => [...this.items.keys()][at] ?? null;
  getItem = (key: string) => this.items.get(key) ?? null;
  removeItem = (key: string) => void this.items.delete(key);
  clear = () => this.items.clear();

  setItem(key: string, value: string) {
    if (this.full) throw new Error("QuotaExceededError");
    this.items.set(key, value);
  }
}
