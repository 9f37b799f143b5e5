import { Button, Group, Text } from "@mantine/core";
import { useState } from "react";
import { Icon } from "../kit/icons";
import { Scroller } from "../kit/scroller";
import { download } from "../lib/files";
import { count } from "../lib/sizes";
import { plain } from "./ansi";
import type { Result } from "./commands";

const DRAWN = 200; // rows at first, and with every step
const IMAGE = /^data:image\/(png|jpeg|gif);base64,[A-Za-z0-9+/=\s]+$/;
const NUMBERS = /int|long|double|float|decimal|short|byte/i;

/** The results of a command. Users' code has made them: they are shown as text, never as markup. */
export function ResultView({ result }: { result: Result }) {
  if (result.resultType === "error") return <Failed result={result} />;
  if (result.resultType === "table") return <Table result={result} />;
  if (result.resultType === "text")
    return (
      <>
        <Printed text={String(result.data ?? "")} />
        {result.truncated && <Cut />}
      </>
    );
  const images = result.fileNames ?? (result.fileName ? [result.fileName] : []);
  return (
    <>
      <Printed text={result.summary ?? ""} />
      {images
        .filter((each) => IMAGE.test(each))
        .map((each, at) => (
          <img key={String(at)} className="result" src={each} alt={`Result ${at + 1} of the command`} />
        ))}
    </>
  );
}

function Printed({ text }: { text: string }) {
  if (text === "") return null;
  return (
    <Scroller className="printed" label="What the command printed">
      {plain(text)}
    </Scroller>
  );
}

const Cut = () => (
  <Text size="sm" c="dimmed">
    The result is longer; the rest was cut off.
  </Text>
);

/** The text of a summary, which the API gives as HTML. The parsed document is never shown, and loads and runs nothing. */
const textOf = (html: string) => new DOMParser().parseFromString(html, "text/html").body.textContent ?? "";

function Failed({ result }: { result: Result }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Printed text={typeof result.data === "string" ? result.data : ""} />
      <Text c="var(--mantine-color-error)" className="said mono" role="alert">
        {textOf(result.summary ?? "The command failed.")}
      </Text>
      {result.cause && (
        <Button variant="subtle" color="gray" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Hide the trace" : "Show the trace"}
        </Button>
      )}
      {open && <Printed text={result.cause ?? ""} />}
    </>
  );
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return "null";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function typeOf(text: string): string {
  try {
    const read: unknown = JSON.parse(text);
    return typeof read === "string" ? read : ((read as { type?: string }).type ?? text);
  } catch {
    return text;
  }
}

function Table({ result }: { result: Result }) {
  const [most, setMost] = useState(DRAWN);
  const schema = result.schema ?? [];
  const rows = (Array.isArray(result.data) ? result.data : []) as unknown[][];
  const types = schema.map((each) => typeOf(each.type));
  return (
    <>
      <Printed text={result.summary ?? ""} />
      <Scroller className="grid" label="The result">
        <table>
          <thead>
            <tr>
              {schema.map((each, at) => (
                <th
                  key={`${each.name} ${String(at)}`}
                  scope="col"
                  className={NUMBERS.test(types[at] ?? "") ? "figures" : ""}
                >
                  {each.name} <span className="soft">{types[at]}</span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, most).map((row, at) => (
              <tr key={String(at)}>
                {row.map((value, column) => (
                  <td
                    key={String(column)}
                    className={`${NUMBERS.test(types[column] ?? "") ? "figures" : ""} ${value === null ? "soft" : ""}`}
                  >
                    {shown(value)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroller>
      <Group gap="xs">
        <Text size="sm" c="dimmed">
          {count(rows.length, "row")}
          {result.truncated ? "; the result has more rows" : ""}
        </Text>
        {rows.length > most && (
          <Button variant="subtle" color="gray" onClick={() => setMost(most + DRAWN)}>
            Show more
          </Button>
        )}
        <Button
          variant="subtle"
          color="gray"
          leftSection={<Icon name="download" size={14} />}
          onClick={() =>
            download(
              "result.csv",
              [
                csv(
                  schema.map((each) => each.name),
                  rows,
                ),
              ],
              "text/csv",
            )
          }
        >
          CSV
        </Button>
      </Group>
    </>
  );
}

function csv(names: string[], rows: unknown[][]): string {
  const cell = (value: unknown) => {
    const text = value === null || value === undefined ? "" : shown(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [names, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}
