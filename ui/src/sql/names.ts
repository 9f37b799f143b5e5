import { quoted } from "../code/sqlnames";

/** A table's full name as SQL needs it. */
export const sqlName = (...parts: string[]) => parts.map(quoted).join(".");

const SAMPLE = 100; // rows
export const sampleOf = (name: string) => `SELECT * FROM ${name} LIMIT ${SAMPLE}`;
export const historyOf = (name: string) => `DESCRIBE HISTORY ${name}`;
