import { Button, Group, Modal, Text } from "@mantine/core";
import type { Library } from "./calls";
import { RestartBadge, restartFields, restarts } from "./fields";
import { libraryName } from "./librarykinds";
import { type Change, pathName, shown } from "./spec";
import type { Editor } from "./state";

export interface LibraryChanges {
  gone: Library[];
  added: Library[];
}

/** What saving changes, old and new side by side. */
export function Review({
  editor,
  found,
  libraries,
  resize,
  busy,
  save,
  close,
}: {
  editor: Editor;
  found: Change[];
  libraries: LibraryChanges;
  resize: boolean;
  busy: boolean;
  save: () => void;
  close: () => void;
}) {
  const running = editor.state === "RUNNING";
  const librariesOnly = found.length === 0;
  const restart = running && !resize && !librariesOnly && restartFields(editor).length > 0;
  return (
    <Modal opened onClose={close} title="Review the changes" size="lg" centered>
      <div className="diff-scroll">
        <table className="diff">
          <thead>
            <tr>
              <th scope="col">Field</th>
              <th scope="col">Now</th>
              <th scope="col">After saving</th>
            </tr>
          </thead>
          <tbody>
            {found.map((each) => (
              <tr key={each.path.join("\0")}>
                <th scope="row">
                  {pathName(each.path)}
                  {each.path[0] !== "size" && restarts(editor, each.path) && <RestartBadge />}
                </th>
                <td className="old">{shown(each.before) || <span className="soft">not set</span>}</td>
                <td className="new">{shown(each.after) || <span className="soft">not set</span>}</td>
              </tr>
            ))}
            {libraries.gone.map((each) => (
              <tr key={`gone ${JSON.stringify(each)}`}>
                <th scope="row">library</th>
                <td className="old">{libraryName(each)}</td>
                <td className="new">
                  <span className="soft">removed</span>
                </td>
              </tr>
            ))}
            {libraries.added.map((each) => (
              <tr key={`added ${JSON.stringify(each)}`}>
                <th scope="row">library</th>
                <td className="old">
                  <span className="soft">not installed</span>
                </td>
                <td className="new">{libraryName(each)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Text my="md">
        {!running
          ? "It takes effect at the next start."
          : resize
            ? "The cluster is resized without a restart."
            : librariesOnly
              ? "New libraries are installed without a restart. Removed libraries stay until the next start."
              : restart
                ? "The cluster restarts. Everything that runs on it is stopped, and notebooks lose their state."
                : "It takes effect at once. The cluster keeps running."}
      </Text>
      <Group justify="flex-end" gap="xs">
        <Button variant="default" onClick={close}>
          Keep editing
        </Button>
        <Button onClick={save} loading={busy} data-autofocus>
          {restart ? "Save and restart" : "Save"}
        </Button>
      </Group>
    </Modal>
  );
}
