import { Button, Group, Text, Title } from "@mantine/core";
import { queryOptions, useMutation, useQuery } from "@tanstack/react-query";
import { words } from "../api/client";
import { CopyButton } from "../kit/copy";
import { Icon } from "../kit/icons";
import { Reading } from "../kit/reading";
import { Scroller } from "../kit/scroller";
import { toast } from "../kit/toasts";
import { bytes } from "../lib/sizes";
import { exactly } from "../lib/time";
import { beginning, linkTo, whole } from "./calls";
import { rowsOf } from "./csv";
import { type Entry, imageType, kindOf, sparkCode, sparkPath } from "./paths";

const MOST_TEXT = 256 * 1024; // bytes
const MOST_IMAGE = 8 << 20;
const MOST_ROWS = 200;
const MOST_CELLS = 60; // of a row

const beginningQuery = (entry: Entry, most: number) =>
  queryOptions({
    queryKey: ["files", "preview", entry.path, entry.modified, entry.size],
    queryFn: () => beginning(entry, most),
  });

/** A file: what it begins with, and how a program reads it. */
export function Preview({ entry, close }: { entry: Entry; close: () => void }) {
  const code = sparkCode(entry);
  return (
    <section className="preview" aria-label={entry.name}>
      <Group justify="space-between" gap="xs" wrap="nowrap" align="flex-start">
        <Title order={2} size="h4" className="said">
          {entry.name}
        </Title>
        <Button variant="subtle" color="gray" onClick={close} aria-label="Close the preview">
          <Icon name="close" size={14} />
        </Button>
      </Group>
      <Text size="sm" c="dimmed">
        {entry.size !== undefined && `${bytes(entry.size)}, `}
        {entry.modified !== undefined && `changed ${exactly(entry.modified)}`}
      </Text>
      <Group gap={6}>
        <Download entry={entry} />
        <CopyButton text={sparkPath(entry.path)} label="Copy the path" />
      </Group>
      <div>
        <Text size="sm" fw={600}>
          Use it in a cluster
        </Text>
        <div className="usage">
          <code>{code}</code>
          <CopyButton text={code} />
        </div>
      </div>
      <Content entry={entry} />
    </section>
  );
}

function Download({ entry }: { entry: Entry }) {
  const link = linkTo(entry);
  const reading = useMutation({
    mutationFn: () => whole(entry.path),
    onSuccess: (found) => save(found, entry.name),
    onError: (error) => toast(words(error), { failed: true }),
  });
  const icon = <Icon name="download" size={14} />;
  if (link !== undefined)
    return (
      <Button component="a" variant="default" leftSection={icon} href={link} download={entry.name}>
        Download
      </Button>
    );
  return (
    <Button variant="default" leftSection={icon} loading={reading.isPending} onClick={() => reading.mutate()}>
      Download
    </Button>
  );
}

function save(content: Blob, name: string) {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // once the browser has begun to read it
}

function Content({ entry }: { entry: Entry }) {
  const kind = kindOf(entry.path);
  const size = entry.size ?? 0;
  if (kind === "binary") return <Text c="dimmed">No preview for files of this kind.</Text>;
  if (kind === "image" && size > MOST_IMAGE)
    return <Text c="dimmed">No preview for images of more than {bytes(MOST_IMAGE)}.</Text>;
  return <Read entry={entry} most={kind === "image" ? MOST_IMAGE : MOST_TEXT} />;
}

function Read({ entry, most }: { entry: Entry; most: number }) {
  const asked = useQuery(beginningQuery(entry, most));
  if (asked.data === undefined) return <Reading query={asked} what="Reading the file" rows={6} />;
  const kind = kindOf(entry.path);
  if (kind === "image") return <Picture content={asked.data} entry={entry} />;
  if (asked.data.subarray(0, 8192).includes(0)) return <Text c="dimmed">No preview: this is not a text file.</Text>;
  const text = new TextDecoder().decode(asked.data);
  const cut = asked.data.length >= most;
  return (
    <>
      {cut && (
        <Text size="sm" c="dimmed">
          The first {bytes(most)}.
        </Text>
      )}
      {kind === "table" ? (
        <Table rows={rowsOf(text, entry.path.endsWith("tsv") ? "\t" : ",", MOST_ROWS + 1)} />
      ) : (
        <Scroller className="code" label="Beginning of the file">
          {kind === "json" && !cut ? pretty(text) : text}
        </Scroller>
      )}
    </>
  );
}

/** As data, since the page's policy allows no other source; an image runs no code. */
function Picture({ content, entry }: { content: Uint8Array; entry: Entry }) {
  let text = "";
  for (let at = 0; at < content.length; at += 0x8000) text += String.fromCharCode(...content.subarray(at, at + 0x8000));
  return <img className="picture" src={`data:${imageType(entry.path)};base64,${btoa(text)}`} alt={entry.name} />;
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function Table({ rows }: { rows: string[][] }) {
  const [heads = [], ...rest] = rows;
  if (rows.length === 0) return <Text c="dimmed">The file is empty.</Text>;
  const cells = (row: string[]) => row.slice(0, MOST_CELLS).map((text, at) => ({ text, key: String(at) }));
  return (
    <>
      <Scroller className="sheet" label="The first rows">
        <table>
          <thead>
            <tr>
              {cells(heads).map(({ text, key }) => (
                <th key={key} scope="col">
                  {text}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rest.slice(0, MOST_ROWS).map((row, number) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: rows of a file have nothing else
              <tr key={number}>
                {cells(row).map(({ text, key }) => (
                  <td key={key}>{text}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroller>
      {rest.length >= MOST_ROWS && (
        <Text size="sm" c="dimmed">
          The first {MOST_ROWS} rows.
        </Text>
      )}
    </>
  );
}
