import "./result.css";
import { Button, Text } from "@mantine/core";
import { useState } from "react";
import { Scroller } from "../../kit/scroller";
import { plain } from "../ansi";
import type { Result } from "../commands";
import { HtmlResult, textOf } from "./html";
import type { Row } from "./rows";
import { ResultTable } from "./table";

const IMAGE = /^data:image\/(png|jpeg|gif);base64,[A-Za-z0-9+/=\s]+$/;
const NONE: never[] = [];

/** The result of a command. Users' code has made it: it is shown as text, and HTML only in a frame of its own. `open`: an error is
 * shown with its traceback. */
export function ResultView({ result, open = false }: { result: Result; open?: boolean }) {
  if (result.resultType === "error") return <Failed result={result} opened={open} />;
  if (result.resultType === "table")
    return (
      <>
        <Printed text={result.summary ?? ""} />
        <ResultTable
          schema={result.schema ?? NONE}
          rows={(Array.isArray(result.data) ? result.data : NONE) as Row[]}
          truncated={result.truncated ?? false}
        />
      </>
    );
  if (result.exited)
    return (
      <>
        <Printed text={result.summary ?? ""} />
        <Text size="sm" className="said">
          Notebook exited: <span className="mono">{String(result.data ?? "")}</span>
        </Text>
      </>
    );
  if (result.resultType === "text")
    return (
      <>
        <Printed text={result.isHtml ? (result.summary ?? "") : String(result.data ?? "")} />
        {result.isHtml && <HtmlResult html={String(result.data ?? "")} />}
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

export function Printed({ text }: { text: string }) {
  if (text === "") return null;
  return (
    <Scroller className="printed" label="What the command printed">
      {plain(text)}
    </Scroller>
  );
}

const Cut = () => (
  <Text size="sm" c="dimmed">
    The result is longer. Only its beginning is shown.
  </Text>
);

/** The message first; the traceback when it is asked for. */
function Failed({ result, opened }: { result: Result; opened: boolean }) {
  const [open, setOpen] = useState(opened);
  const message = textOf(result.summary ?? "The command failed.");
  const more = result.cause !== undefined && result.cause.trim() !== message.trim();
  return (
    <>
      <Text c="var(--mantine-color-error)" className="said mono" role="alert">
        {message}
      </Text>
      {more && (
        <Button variant="subtle" color="gray" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Hide the traceback" : "Show the traceback"}
        </Button>
      )}
      {open && more && <Printed text={result.cause ?? ""} />}
      <Printed text={typeof result.data === "string" ? result.data : ""} />
    </>
  );
}
