import { Alert, Button, Group, Loader, Tabs } from "@mantine/core";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { jsonObject } from "../lib/json";
import { goTo } from "./fields";
import { Form } from "./form";
import { EditorFrame } from "./frame";
import { KeptOpen } from "./section";
import { SectionList } from "./sectionlist";
import { type Spec, same } from "./spec";
import { type Editor, EditorProvider } from "./state";
import { Summary } from "./summary";

const JsonEditor = lazy(() => import("./json"));

const pretty = (spec: Spec) => `${JSON.stringify(spec, null, 2)}\n`;

/** A page with a form and the same as JSON, and beside them what comes of it. */
export function Workspace({
  title,
  above,
  editor,
  dirty,
  action,
  act,
  busy,
  blocked,
  cancel,
  problem,
  news,
  hint,
}: {
  title: ReactNode;
  above?: ReactNode;
  editor: Editor;
  dirty: boolean;
  action: string;
  act: () => void;
  busy: boolean;
  blocked?: string; // why it cannot be done now
  cancel: () => void;
  problem: string | undefined;
  news?: ReactNode; // what others have done meanwhile
  hint?: ReactNode; // above the form
}) {
  const [tab, setTab] = useState<"form" | "json">("form");
  const [text, setText] = useState<string>();
  const [kept] = useState(() => new Map<string, boolean>());
  const read = text === undefined ? undefined : jsonObject(text);
  const mistake = read?.mistake;
  const json =
    text !== undefined && (mistake !== undefined || same(read?.object, editor.draft)) ? text : pretty(editor.draft);
  const type = (next: string) => {
    setText(next);
    const { object } = jsonObject(next);
    if (object !== undefined) editor.change(() => object as Spec);
  };
  const go = () => {
    const [first] = editor.errors;
    if (first !== undefined) {
      setTab("form");
      requestAnimationFrame(() => goTo(first.field));
    }
    act();
  };
  return (
    <EditorProvider editor={editor}>
      <EditorFrame
        title={title}
        above={above}
        action={action}
        act={go}
        busy={busy}
        unsaved={dirty || mistake !== undefined}
        blocked={blocked}
        disabled={mistake !== undefined}
        cancel={cancel}
        problem={problem}
        news={news}
      >
        <Tabs value={tab} onChange={(next) => setTab(next === "json" ? "json" : "form")} keepMounted={false}>
          <Tabs.List>
            <Tabs.Tab value="form">Form</Tabs.Tab>
            <Tabs.Tab value="json">JSON{mistake !== undefined && " (not valid)"}</Tabs.Tab>
          </Tabs.List>
          <div className={tab === "form" && mistake === undefined ? "editor-columns listed" : "editor-columns"}>
            {tab === "form" && mistake === undefined && <SectionList />}
            <div className="editor-main">
              {hint}
              <Tabs.Panel value="form">
                {mistake === undefined ? (
                  <KeptOpen value={kept}>
                    <Form />
                  </KeptOpen>
                ) : (
                  <Alert variant="default" className="notice bad" title="The JSON is not valid">
                    <p>{mistake}</p>
                    <Group gap={8}>
                      <Button onClick={() => setTab("json")}>Back to the JSON</Button>
                      <Button variant="default" onClick={() => setText(undefined)}>
                        Discard the text
                      </Button>
                    </Group>
                  </Alert>
                )}
              </Tabs.Panel>
              <Tabs.Panel value="json">
                <Suspense fallback={<Loader size="sm" role="status" aria-label="Loading the editor" />}>
                  <JsonEditor text={json} label="Specification as JSON" onChange={type} />
                </Suspense>
                <p className={mistake === undefined ? "help" : "wrong"} role="status">
                  {mistake ?? "This is the request body of the API. Changes here update the form."}
                </p>
              </Tabs.Panel>
            </div>
            <Summary />
          </div>
        </Tabs>
      </EditorFrame>
    </EditorProvider>
  );
}
