import { Button, NativeSelect, TextInput } from "@mantine/core";
import type { Policy } from "../api/offers";
import { Icon } from "../kit/icons";
import type { Library } from "./calls";
import { idOf, RemoveButton } from "./fields";
import { KINDS, kindOf, libraryName } from "./librarykinds";
import { PathInput } from "./pathinput";
import { read, write } from "./spec";
import { useEditor } from "./state";

export function Libraries() {
  const editor = useEditor();
  const { libraries, setLibraries } = editor;
  const policy: Policy | undefined = editor.offers.policies.find((each) => each.policy_id === editor.draft.policy_id);
  const enforced = (policy?.libraries ?? []) as Library[];
  if (enforced.length > 0)
    return (
      <div className="locked" id={idOf(["libraries"])} tabIndex={-1}>
        {enforced.map((each) => (
          <div className="value" key={JSON.stringify(each)}>
            <Icon name="lock" size={14} /> <span>{libraryName(each)}</span>
          </div>
        ))}
        <div className="help">Policy {policy?.name} sets the libraries of its clusters.</div>
      </div>
    );
  return (
    <div id={idOf(["libraries"])} tabIndex={-1}>
      <LibraryRows
        libraries={libraries}
        change={setLibraries}
        help="Installed on every node at every start. Removed libraries stay until the next start."
      />
      {editor.libraryError !== undefined && <div className="wrong">{editor.libraryError}</div>}
    </div>
  );
}

/** Libraries that are chosen, one in each row. */
export function LibraryRows({
  libraries,
  change,
  help,
}: {
  libraries: Library[];
  change: (make: (libraries: Library[]) => Library[]) => void;
  help: string;
}) {
  return (
    <>
      <ul className="scripts" aria-label="Libraries">
        {libraries.map((library, at) => {
          const kind = kindOf(library);
          const put = (next: Library) => change((now) => now.map((each, other) => (other === at ? next : each)));
          return (
            <li
              // biome-ignore lint/suspicious/noArrayIndexKey: a library is what is at that place
              key={at}
              className="script"
            >
              <NativeSelect
                aria-label={`Kind of library ${at + 1}`}
                size="xs"
                value={kind.kind}
                data={KINDS.map((each) => ({ value: each.kind, label: each.label }))}
                onChange={(event) => {
                  const next = KINDS.find((each) => each.kind === event.currentTarget.value) ?? kind;
                  put(write({}, next.path, read(library, kind.path) ?? ""));
                }}
              />
              {kind.start === undefined ? (
                <TextInput
                  className="where"
                  aria-label={`Library ${at + 1}`}
                  placeholder={kind.example}
                  value={String(read(library, kind.path) ?? "")}
                  onChange={(event) => put(write(library, kind.path, event.currentTarget.value))}
                />
              ) : (
                <PathInput
                  className="where"
                  aria-label={`Library ${at + 1}`}
                  placeholder={kind.example}
                  start={kind.start}
                  looks
                  value={String(read(library, kind.path) ?? "")}
                  change={(next) => put(write(library, kind.path, next))}
                />
              )}
              {kind.repo !== undefined && (
                <TextInput
                  w={170}
                  aria-label={`${kind.repo} of library ${at + 1}`}
                  placeholder={`${kind.repo} (optional)`}
                  value={String(read(library, [kind.kind, "repo"]) ?? "")}
                  onChange={(event) => put(write(library, [kind.kind, "repo"], event.currentTarget.value || undefined))}
                />
              )}
              <RemoveButton
                label={`Remove library ${at + 1}`}
                onClick={() => change((now) => now.filter((_, other) => other !== at))}
              />
            </li>
          );
        })}
      </ul>
      <div className="under">
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => change((now) => [...now, { pypi: { package: "" } }])}
        >
          Add a library
        </Button>
        <span className="help">{help}</span>
      </div>
    </>
  );
}
