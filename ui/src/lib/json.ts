/** JSON with line breaks; what is not JSON as it is. */
export const pretty = (text: string) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

/** The object that a text is, or why it is none. */
export function jsonObject(text: string): { object?: object; mistake?: string } {
  try {
    const found: unknown = JSON.parse(text);
    if (typeof found === "object" && found !== null && !Array.isArray(found)) return { object: found };
    return { mistake: "The text must be a JSON object." };
  } catch (error) {
    return { mistake: error instanceof Error ? error.message : String(error) };
  }
}
