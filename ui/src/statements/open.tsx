import { Button } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useUser } from "../editor/user";
import { added } from "./drafts";
import { chosenCompute, draftsOf } from "./draftstore";

/** Takes a statement to the SQL editor. `compute`: where it is to run. */
export function OpenInEditor({ sql, compute }: { sql: string; compute?: string }) {
  const user = useUser();
  const navigate = useNavigate();
  const open = (owner: string) => {
    const store = draftsOf(owner);
    const [drafts, draft] = added(store.get(), sql);
    store.set(drafts);
    if (compute !== undefined) chosenCompute.set(compute);
    void navigate({ to: "/sql/editor", search: { draft } });
  };
  return (
    <Button variant="default" disabled={user === undefined} onClick={() => open(user ?? "")}>
      Open in the editor
    </Button>
  );
}
