import { ActionIcon, Button, NativeSelect, TextInput } from "@mantine/core";
import { type DragEvent, useRef, useState } from "react";
import { flushSync } from "react-dom";
import type { components } from "../api/schema";
import { Icon } from "../kit/icons";
import { idOf, Locked, RemoveButton, RestartBadge, restarts } from "./fields";
import { PathInput } from "./pathinput";
import { read, write } from "./spec";
import { errorsAt, useEditor } from "./state";

type Place = keyof components["schemas"]["InitScriptInfo"];
type Script = { [Key in Place]?: { destination?: string; region?: string; endpoint?: string } };

const PLACES: { place: Place; label: string; example: string; start?: string }[] = [
  { place: "workspace", label: "Workspace", example: "/Shared/init.sh", start: "/" },
  { place: "volumes", label: "Volume", example: "/Volumes/main/default/scripts/init.sh", start: "/Volumes/" },
  { place: "dbfs", label: "DBFS", example: "dbfs:/init-scripts/init.sh", start: "dbfs:/" },
  { place: "s3", label: "S3", example: "s3://bucket/init.sh" },
  { place: "abfss", label: "ABFSS", example: "abfss://container@account.dfs.core.windows.net/init.sh" },
  { place: "gcs", label: "Google Cloud Storage", example: "gs://bucket/init.sh" },
  { place: "file", label: "File on the node", example: "file:/opt/init.sh" },
];
const placeOf = (script: Script) => PLACES.find((each) => script[each.place] != null) ?? PLACES[0];

/** Scripts in the order in which they run. Rows are moved by dragging, with the arrow keys on their handle, or by buttons. */
export function InitScripts() {
  const editor = useEditor();
  const scripts = (read(editor.draft, ["init_scripts"]) ?? []) as Script[];
  const [dragged, setDragged] = useState<number>();
  const [over, setOver] = useState<number>();
  const [said, setSaid] = useState("");
  const list = useRef<HTMLOListElement>(null);
  if (editor.lock(["init_scripts"]) !== undefined) return <Locked path={["init_scripts"]} label="Init scripts" />;
  const change = (make: (now: Script[]) => Script[]) =>
    editor.change((spec) => write(spec, ["init_scripts"], make((read(spec, ["init_scripts"]) ?? []) as Script[])));
  const move = (from: number, to: number) => {
    if (to < 0 || to >= scripts.length || from === to) return;
    flushSync(() => {
      change((now) => {
        const others = now.filter((_, at) => at !== from);
        return [...others.slice(0, to), ...now.slice(from, from + 1), ...others.slice(to)];
      });
      setSaid(`Script ${from + 1} moved to position ${to + 1} of ${scripts.length}`);
    });
    list.current?.querySelectorAll<HTMLButtonElement>(".handle")[to]?.focus();
  };
  const drop = (event: DragEvent, to: number) => {
    event.preventDefault();
    if (dragged !== undefined) move(dragged, to);
    setDragged(undefined);
    setOver(undefined);
  };
  const errors = errorsAt(editor.errors, "init_scripts");
  const warnings = editor.checking ? [] : editor.warnings; // what was checked before may have been another script
  return (
    <div id={idOf(["init_scripts"])} tabIndex={-1}>
      <ol className="scripts" ref={list} aria-label="Init scripts, in the order in which they run">
        {scripts.map((script, at) => {
          const known = placeOf(script);
          const place = known?.place ?? "workspace";
          const set = (path: string[], value: unknown) =>
            change((now) => now.map((each, other) => (other === at ? write(each, path, value) : each)));
          const choose = (next: string) =>
            change((now) => now.map((each, other) => (other === at ? moved(each, next) : each)));
          return (
            <li
              // biome-ignore lint/suspicious/noArrayIndexKey: a script is what is at that place
              key={at}
              className={over === at && dragged !== at ? "script over" : "script"}
              onDragOver={(event) => {
                if (dragged === undefined) return;
                event.preventDefault();
                setOver(at);
              }}
              onDrop={(event) => drop(event, at)}
            >
              {/* biome-ignore lint/a11y/noStaticElementInteractions: what is dragged; the button in it is for the keyboard */}
              <span
                className="grip"
                draggable
                onDragStart={(event) => {
                  event.dataTransfer.effectAllowed = "move";
                  event.dataTransfer.setData("text/plain", String(at));
                  setDragged(at);
                }}
                onDragEnd={() => {
                  setDragged(undefined);
                  setOver(undefined);
                }}
              >
                <button
                  type="button"
                  className="handle"
                  aria-label={`Move script ${at + 1}: arrow keys`}
                  onKeyDown={(event) => {
                    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
                    event.preventDefault();
                    move(at, event.key === "ArrowUp" ? at - 1 : at + 1);
                  }}
                >
                  <Icon name="grip" size={14} />
                </button>
              </span>
              <span className="number">{at + 1}.</span>
              <NativeSelect
                aria-label={`Kind of script ${at + 1}`}
                size="xs"
                value={place}
                onChange={(event) => choose(event.currentTarget.value)}
                data={PLACES.map((each) => ({ value: each.place, label: each.label }))}
              />
              <PathInput
                className="where"
                aria-label={`Path of script ${at + 1}`}
                placeholder={known?.example}
                bare={place === "workspace" ? "workspace" : undefined}
                start={known?.start ?? ""}
                trouble={warnings.find((each) => each.field === `init_scripts[${at}]`)?.message}
                value={script[place]?.destination ?? ""}
                change={(next) => set([place, "destination"], next)}
              />
              {place === "s3" && (
                <TextInput
                  w={110}
                  aria-label={`Region of script ${at + 1}`}
                  placeholder="Region"
                  value={script.s3?.region ?? ""}
                  onChange={(event) => set(["s3", "region"], event.currentTarget.value || undefined)}
                />
              )}
              <span className="steps">
                <ActionIcon
                  variant="subtle"
                  color="gray"
                  aria-label={`Move script ${at + 1} up`}
                  disabled={at === 0}
                  onClick={() => move(at, at - 1)}
                >
                  <Icon name="up" size={14} />
                </ActionIcon>
                <ActionIcon
                  variant="subtle"
                  color="gray"
                  aria-label={`Move script ${at + 1} down`}
                  disabled={at === scripts.length - 1}
                  onClick={() => move(at, at + 1)}
                >
                  <Icon name="down" size={14} />
                </ActionIcon>
                <RemoveButton
                  label={`Remove script ${at + 1}`}
                  onClick={() => change((now) => now.filter((_, other) => other !== at))}
                />
              </span>
            </li>
          );
        })}
      </ol>
      <span className="unseen" role="status">
        {said}
      </span>
      <div className="under">
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => change((now) => [...now, { workspace: { destination: "" } }])}
        >
          Add a script
        </Button>
        <span className="help">They run on every node, in this order, before Spark starts.</span>
        {restarts(editor, ["init_scripts"]) && <RestartBadge />}
      </div>
      {errors.map((each) => (
        <div className="wrong" key={each.message}>
          {each.message}
        </div>
      ))}
    </div>
  );
}

/** The same path, of another kind. */
function moved(script: Script, place: string): Script {
  const { destination = "", region } = script[placeOf(script)?.place ?? "workspace"] ?? {};
  return { [place]: place === "s3" ? { destination, ...(region ? { region } : {}) } : { destination } };
}
